package sdk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A driver's version becomes a semantic one, without leading zeros.
func TestSemantic(t *testing.T) {
	for text, want := range map[string]string{
		"570.124.06": "570.124.6", "12.8": "12.8.0", "535": "535.0.0", "550.54.15-rc1": "550.54.15", "6.10.5": "6.10.5", "": "", "beta": "",
	} {
		if got := Semantic(text); got != want {
			t.Errorf("Semantic(%q) = %q, want %q", text, got, want)
		}
	}
}

// A call waits for a busy loop until its context ends; then the loop never runs its function.
func TestInLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := make(Asks[int])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := InLoop(ctx, asks, func(int) int { t.Error("it ran"); return 0 }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline's", err)
		}
		go func() { (<-asks)(7) }()
		if got, err := InLoop(t.Context(), asks, func(l int) int { return l * 2 }); got != 14 || err != nil {
			t.Errorf("InLoop = %d, %v", got, err)
		}
	})
}

// A call ends 2 s before its deadline, or halfway if less than 4 s are left.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for total, want := range map[time.Duration]time.Duration{25 * time.Second: 23 * time.Second, time.Second: time.Second / 2} {
			outer, cancel := context.WithTimeout(t.Context(), total)
			ctx, cancelInner := InTime(outer)
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != want {
				t.Errorf("of %v there are %v left, want %v", total, time.Until(deadline), want)
			}
			cancelInner()
			cancel()
		}
		ctx, cancel := InTime(t.Context())
		defer cancel()
		if _, ok := ctx.Deadline(); ok {
			t.Error("a deadline where there was none")
		}
	})
}
