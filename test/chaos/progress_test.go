package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Verifies that a run tells how far it is, each time that the interval is over, also while
// one step lasts; that it stops when it ends; and that it does not beside a line a step.
func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		runner runner
		want   string
	}{
		"drawn": {runner{every: 30 * time.Second, most: 300, seed: 7},
			"after 30s: 0 of 300 steps of SEED=7 are done, 0 more had nothing to do; the start began 30s ago\n" +
				"after 1m0s: 104 of 300 steps of SEED=7 are done, 33 more had nothing to do; fault/1 began 15s ago\n" +
				"after 1m30s: 104 of 300 steps of SEED=7 are done, 33 more had nothing to do; fault/1 began 45s ago\n"},
		"given": {runner{every: time.Minute},
			"after 1m0s: 104 of 1200 steps are done, 33 more had nothing to do; fault/1 began 15s ago\n"},
		"fewer than may be": {runner{every: time.Minute, most: 2000},
			"after 1m0s: 104 of 1200 steps are done, 33 more had nothing to do; fault/1 began 15s ago\n"},
		"never":         {runner{}, ""},
		"step for step": {runner{every: time.Second, verbose: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				c.runner.out = &out
				p := c.runner.follow(1200)
				<-time.After(45 * time.Second)
				p.turn("fault/1", result{done: 104, skipped: 33})
				<-time.After(50 * time.Second)
				p.end()
				<-time.After(time.Hour)
				if out.String() != c.want {
					t.Errorf("it told\n%swant\n%s", &out, c.want)
				}
			})
		})
	}
}
