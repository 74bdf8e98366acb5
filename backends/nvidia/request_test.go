package nvidia

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
)

// What a reset ends: all that was heard of its GPU before, if the GPU answers and
// says that nothing is wrong; nothing else.
func TestForgive(t *testing.T) {
	now := time.Now()
	table, err := xid.New("xid", xid.Settings{}, xid.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for name, c := range map[string]struct {
		gpu       driver.GPU
		missing   bool
		looked    time.Duration // after the reset
		forgiven  bool
		forgotten bool // the event from before the reset
	}{
		"sound":            {looked: 1, forgiven: true, forgotten: true},
		"an earlier look":  {looked: -1},
		"no answer":        {looked: 1, gpu: driver.GPU{Err: driver.ErrReset}},
		"missing":          {looked: 1, missing: true},
		"something is bad": {looked: 1, gpu: driver.GPU{Condition: driver.Condition{RemapFailed: &yes}}, forgotten: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(newBackend(nil, nil, nil), nil)
			l.cfg = &config{strategy: migNone, table: table}
			for _, uuid := range []string{"GPU-a", "GPU-b"} {
				c.gpu.UUID = uuid
				l.roster.gpus[uuid] = &record{gpu: c.gpu, faults: map[scope]fault{whole: {health: sdk.Unknown("heard")}}}
				for _, after := range []time.Duration{-1, 1} {
					l.pending = append(l.pending, driver.Event{GPU: uuid, Time: now.Add(after)})
				}
			}
			if c.missing {
				l.roster.gpus["GPU-a"].missing = now
			}
			l.waiters = []*waiter{{ctx: t.Context(), since: now, reset: []string{"GPU-a"}}}
			l.forgive(now.Add(c.looked))
			if got := len(l.roster.gpus["GPU-a"].faults) == 0; got != c.forgiven {
				t.Errorf("its faults are forgiven: %v, want %v", got, c.forgiven)
			}
			if got := len(l.pending) == 3; got != c.forgotten {
				t.Errorf("events are %v, one forgotten: %v", l.pending, c.forgotten)
			}
			if len(l.roster.gpus["GPU-b"].faults) == 0 {
				t.Error("faults of another GPU are forgiven")
			}
		})
	}
}
