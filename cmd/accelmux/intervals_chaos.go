//go:build chaos

package main

import (
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/supervisor"
)

// These shorter intervals let test/chaos run thousands of steps in minutes. Nothing else
// differs from the normal program.
func init() {
	intervals = agent.Timing{
		// Long, as is Supervisor.Kill: a test machine that stalls must not look like a
		// backend that hangs.
		Stop:           25 * time.Second,
		ResetBackoff:   20 * time.Millisecond,
		ReleaseBackoff: 20 * time.Millisecond,
		UsagePoll:      100 * time.Millisecond,
		Claims:         300 * time.Millisecond,
		Selection: profile.Timing{
			Start: time.Millisecond, Spread: time.Millisecond, Backoff: 20 * time.Millisecond, BackoffLimit: 200 * time.Millisecond,
		},
		Events: events.Timing{Spread: time.Millisecond, Backoff: 10 * time.Millisecond, BackoffLimit: time.Second},
		Usage: podresources.Timing{
			Quiet: time.Millisecond, Grace: 500 * time.Millisecond, Unseen: 500 * time.Millisecond, Settle: 20 * time.Millisecond,
			Confirm: 20 * time.Millisecond, Spacing: 20 * time.Millisecond, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		},
		Supervisor: supervisor.Timing{
			// The limits of a start are the defaults: a slow machine needs them.
			Reset: 3 * time.Second, Abandon: 500 * time.Millisecond,
			Backoff: 50 * time.Millisecond, BackoffLimit: 200 * time.Millisecond, ProgramPoll: 50 * time.Millisecond,
			Failures: 12, Window: 10 * time.Second, Quarantine: 500 * time.Millisecond, QuarantineLimit: time.Second,
			Timing: plug.Timing{Terminate: 300 * time.Millisecond, Kill: 20 * time.Second, Reap: time.Second}, Retire: 5 * time.Second, Prepare: 10 * time.Second, Release: 5 * time.Second,
		},
		Plugin: deviceplugin.Timing{
			Backoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, Poll: 200 * time.Millisecond, Grace: 200 * time.Millisecond,
			Connect: 3 * time.Second,
		},
	}
}
