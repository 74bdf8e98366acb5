package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// percent is when the next garbage collection is due.
func percent() int {
	now := debug.SetGCPercent(usualPercent)
	debug.SetGCPercent(now)
	return now
}

// Collections are put off at the start, and are as usual after the first one; an
// operator's own value counts as it is.
func TestCollectLater(t *testing.T) {
	defer debug.SetGCPercent(percent())
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	collectLater()
	if now := percent(); now != 50 {
		t.Errorf("with GOGC of 50 it is %d", now)
	}
	t.Setenv("GOGC", "")
	collectLater()
	if now := percent(); now != startPercent {
		t.Errorf("at the start it is %d, want %d", now, startPercent)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); percent() != usualPercent; {
		runtime.GC()
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after collections it is %d, want %d", percent(), usualPercent)
		}
	}
}
