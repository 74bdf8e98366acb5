package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
)

// Verifies that pauses double up to the limit, for any number of failures, and that
// the jitter adds at most a half.
func TestPauses(t *testing.T) {
	const first, limit = time.Second, 5 * time.Second
	pauses := backoff.New(first, limit)
	for failures, want := range []time.Duration{first, first, 2 * time.Second, 4 * time.Second, limit, limit} {
		if got := backoff.Base(failures, first, limit); got != want {
			t.Errorf("%d failures: %v, want %v", failures, got, want)
		}
		if got := backoff.After(failures, first, limit); got < want || got > want*3/2 {
			t.Errorf("%d failures: %v with jitter, want from %v on", failures, got, want)
		}
		if failures == 0 {
			continue
		}
		if got := pauses.Step(); got < want || got > want*3/2 {
			t.Errorf("step %d: %v, want from %v on", failures, got, want)
		}
	}
	if got := backoff.Base(1<<40, first, limit); got != limit {
		t.Errorf("after very many failures: %v, want %v", got, limit)
	}
	if got := backoff.Base(3, limit, first); got != first {
		t.Errorf("with a limit below the first pause: %v, want the limit", got)
	}
}

// Verifies that a sleep ends with the context.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if slept := backoff.Sleep(ctx, 59*time.Second); !slept {
			t.Error("a sleep ended before its time")
		}
		if slept := backoff.Sleep(ctx, time.Hour); slept || time.Since(began) != time.Minute {
			t.Errorf("a sleep of an hour ended after %v: %v", time.Since(began), slept)
		}
	})
}
