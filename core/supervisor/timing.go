package supervisor

import (
	"time"

	"github.com/accelmux/accelmux/core/plug"
)

// Timing holds every interval and limit of the supervisor. A zero field means
// its default, which is right for a node; tests shorten them.
type Timing struct {
	plug.Timing
	// Configure, FirstInventory, Prepare, Release and Reset are the
	// deadlines of the contract. Default 10s, 10s, 25s, 25s, 2m.
	Configure, FirstInventory, Prepare, Release, Reset time.Duration
	// Abandon is how long a backend may work on devices after a call for them was
	// cancelled at its deadline: the contract's time to abandon it. Default 5s.
	Abandon time.Duration
	// Retire is how long a replaced process may take to finish its calls. Default 25s.
	Retire time.Duration

	// Backoff is the pause after the first failure; it doubles up to BackoffLimit.
	// Default 1s, 1m.
	Backoff, BackoffLimit time.Duration
	// Failures within Window put a backend in quarantine. Default 6 in 10m.
	Failures int
	Window   time.Duration
	// Quarantine is the length of the first quarantine; each failed retry doubles it up to
	// QuarantineLimit. Default 2m, 15m.
	Quarantine, QuarantineLimit time.Duration
	// Upgrade is how long a program and a manifest that do not belong together may be being replaced. Default 5s.
	Upgrade time.Duration
	// Misconfigured is the pause after settings were refused. Default 5m.
	Misconfigured time.Duration
	// ProgramPoll is how often the program of a waiting backend, and its manifest, are checked for changes.
	// Default 2s.
	ProgramPoll time.Duration

	// Use is how often, on average, the processes and files of a backend are counted. Default 3s.
	Use time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Timing = t.WithDefaults()
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Upgrade, 5 * time.Second}, {&t.Configure, 10 * time.Second},
		{&t.FirstInventory, 10 * time.Second}, {&t.Prepare, 25 * time.Second},
		{&t.Release, 25 * time.Second}, {&t.Reset, 2 * time.Minute}, {&t.Abandon, 5 * time.Second},
		{&t.Retire, 25 * time.Second},
		{&t.Backoff, time.Second}, {&t.BackoffLimit, time.Minute}, {&t.Window, 10 * time.Minute},
		{&t.Quarantine, 2 * time.Minute}, {&t.QuarantineLimit, 15 * time.Minute},
		{&t.Misconfigured, 5 * time.Minute}, {&t.ProgramPoll, 2 * time.Second}, {&t.Use, 3 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if t.Failures <= 0 {
		t.Failures = 6
	}
	return t
}
