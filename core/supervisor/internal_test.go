package supervisor

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/plug"
)

func testTiming() *Timing {
	timing := Timing{
		Backoff: time.Second, BackoffLimit: 5 * time.Second, Failures: 4, Window: time.Minute,
		Quarantine: 2 * time.Minute, QuarantineLimit: 5 * time.Minute,
	}.withDefaults()
	return &timing
}

// Verifies the pauses after failures at given times, and what opens the breaker.
func TestBreaker(t *testing.T) {
	type failure struct {
		at     time.Duration
		weight int
		stable bool // a stable run came before
	}
	type outcome struct {
		Pause       time.Duration
		Quarantined bool
	}
	tests := map[string]struct {
		failures []failure
		want     []outcome
	}{
		"doubles, opens, stays open, closes": {
			failures: []failure{{0, 1, false}, {1 * time.Second, 1, false}, {3 * time.Second, 1, false}, {7 * time.Second, 1, false},
				{200 * time.Second, 1, false}, {500 * time.Second, 1, false}, {1000 * time.Second, 1, true}},
			want: []outcome{{time.Second, false}, {2 * time.Second, false}, {4 * time.Second, false}, {2 * time.Minute, true},
				{4 * time.Minute, true}, {5 * time.Minute, true}, {time.Second, false}},
		},
		"outside the window": {
			failures: []failure{{0, 1, false}, {50 * time.Second, 1, false}, {100 * time.Second, 1, false}, {150 * time.Second, 1, false}},
			want:     []outcome{{time.Second, false}, {2 * time.Second, false}, {4 * time.Second, false}, {5 * time.Second, false}},
		},
		"grave ones": {
			failures: []failure{{0, 2, false}, {time.Second, 2, false}},
			want:     []outcome{{time.Second, false}, {2 * time.Minute, true}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := breaker{timing: testTiming()}
			if b.grave() != 2 {
				t.Fatalf("grave = %d", b.grave())
			}
			var got []outcome
			for _, f := range test.failures {
				if f.stable {
					b.stable()
				}
				pause, quarantined := b.fail(time.Unix(1000, 0).Add(f.at), f.weight)
				got = append(got, outcome{pause, quarantined})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
		})
	}
}

// Verifies which errors of a start are a lack of resources, not the program's failure.
func TestShortage(t *testing.T) {
	for cause, want := range map[error]bool{
		syscall.EMFILE: true, syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.ENOSPC: true,
		plug.ErrStarved: true,
		syscall.ENOENT:  false, syscall.ENOEXEC: false, syscall.EACCES: false, syscall.ETXTBSY: false,
	} {
		err := plug.StartError("/backend", &os.PathError{Op: "fork/exec", Path: "/backend", Err: cause})
		if got := isShortage(fail(unavailable, "%w", err)); got != want {
			t.Errorf("%v: %v, want %v", cause, got, want)
		}
	}
}

// deaf is a sink that only hears of losses.
type deaf struct{ Sink }

func (deaf) Lost(string, error) {}

// Verifies that a process which hangs is quarantined on a busy node as well, where it seems to wait for a processor.
func TestStarvedStarts(t *testing.T) {
	timing := *testTiming()
	timing.Failures = 2
	b := newBackend(&Supervisor{timing: timing, sink: deaf{}, log: slog.New(slog.DiscardHandler)}, "b")
	var got []State
	for range 4 {
		b.failed(&instance{backend: b}, fail(crashed, "it did not answer Configure: %w", plug.ErrStarved))
		got = append(got, b.pause)
	}
	b.failed(&instance{backend: b, readyAt: time.Now()}, fail(crashed, "its heartbeats stopped: %w", plug.ErrStarved))
	got = append(got, b.pause)
	want := []State{Backoff, Backoff, Backoff, Quarantined, Backoff}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after each failure (-want +got):\n%s", diff)
	}
}

// Verifies that no second process starts while one hangs in the kernel, and that the backend
// can be removed nevertheless.
func TestStuckProcess(t *testing.T) {
	b := newBackend(&Supervisor{timing: *testTiming(), log: slog.New(slog.DiscardHandler)}, "b")
	i := &instance{backend: b}
	i.ctx, i.cancel = context.WithCancelCause(t.Context())
	b.drop(i, errReplaced)
	if b.stopAll(ErrRemoved) {
		t.Error("the backend would end before its process")
	}
	b.handle(stuckEvent{i})
	if !b.blocked() {
		t.Error("a second process would start while one hangs in the kernel")
	}
	if !strings.Contains(b.lastError, "has not ended after SIGKILL") {
		t.Errorf("last error = %q", b.lastError)
	}
	if !b.stopAll(ErrRemoved) {
		t.Error("the backend would never end")
	}
	b.handle(goneEvent{i})
	if b.blocked() {
		t.Error("a start is still blocked")
	}
}
