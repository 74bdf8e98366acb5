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

// Verifies that Close names the backend that had not stopped at its deadline.
func TestCloseNamesTheLate(t *testing.T) {
	timing := fast()
	timing.Terminate, timing.Reap = patience.Long, time.Millisecond
	r := newRig(t, timing)
	r.run(spec("normal"))
	r.untilState(supervisor.Running)
	pid := r.status().PID
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Close(ctx)
	if want := "backends b: they took too long to stop"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("close: %v, want %q", err, want)
	}
	must(t, syscall.Kill(pid, syscall.SIGCONT))
}
