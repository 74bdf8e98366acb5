package supervisor_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/patience"
)

// Close looks at the processes once more if its time is over before they were: who did
// not run for so long finds them gone a moment later.
func TestCloseTooLate(t *testing.T) {
	timing := fast()
	timing.Reap = 10 * time.Second
	r := newRig(t, timing)
	r.run(spec("normal"))
	r.untilState(supervisor.Running)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

// Close names the backend that had not stopped when its time was over.
func TestCloseNamesTheLate(t *testing.T) {
	timing := fast()
	timing.Terminate, timing.Reap = patience.Long, time.Millisecond
	r := newRig(t, timing)
	r.run(spec("normal"))
	r.untilState(supervisor.Running)
	pid := r.status().PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Close(ctx)
	if want := "backends b: they took too long to stop"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("close: %v, want %q", err, want)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
