package supervisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that a slow device does not end the process, that a call in progress for another
// device is answered, and that ended is called for the slow device when the backend has had
// time to abandon the call.
func TestOverrun(t *testing.T) {
	const limit, grace = 3 * time.Second, time.Second // the other device must be answered within the limit
	timing := fast()
	timing.Prepare, timing.Abandon = limit, grace
	r := newRig(t, timing)
	flag := filepath.Join(r.runDir, "flag")
	r.run(spec("normal", flagEnv, flag))
	pid := r.status().PID

	parallel := make(chan error, 1)
	go func() {
		_, err := r.Release(t.Context(), "b", &backendv1.ReleaseRequest{Devices: []*backendv1.HeldDevice{{Id: "wait"}}}, func() {})
		parallel <- err
	}()
	r.until(t, "the parallel call has begun", func() bool { return r.count("report b 2") == 1 })
	begin, ended := time.Now(), make(chan struct{})
	err := r.prepare(t.Context(), "slow", func() { close(ended) })
	if want := "backend b: Prepare: it did not answer within 3s, and the call was cancelled: try again after 1s"; !errors.Is(err, context.DeadlineExceeded) ||
		!errors.As(err, new(*supervisor.CallError)) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the slow device: %v, want %s", err, want)
	}
	if err := r.command(t.Context(), "dev-1"); err != nil {
		t.Errorf("another device after it: %v", err)
	}
	must(t, os.WriteFile(flag, nil, 0o600))
	if err := <-parallel; err != nil {
		t.Errorf("the parallel call: %v", err)
	}
	<-ended
	if took := time.Since(begin); took < limit+grace {
		t.Errorf("the slow device's call ended after %s, not after %s and %s", took, limit, grace)
	}
	if s := r.status(); s.PID != pid || s.State != supervisor.Running || s.Restarts != 0 || s.LastError != "" {
		t.Errorf("status = %+v, the process was %d", s, pid)
	}
}

// Verifies that ended is called for a cancelled call when its process has ended.
func TestOverrunEndsWithTheProcess(t *testing.T) {
	timing := fast()
	timing.Prepare, timing.Abandon = 100*time.Millisecond, time.Hour
	r := newRig(t, timing)
	r.run(spec("normal", flagEnv, "/nonexistent"))
	ended := make(chan struct{})
	if err := r.prepare(t.Context(), "wait", func() { close(ended) }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the call: %v", err)
	}
	select {
	case <-ended:
		t.Error("the call has ended though its process is there")
	default:
	}
	r.Apply(nil)
	<-ended
}
