package supervisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// One slow device is its own trouble: the process stays, a call for another
// device that is going on is answered, and the slow one's next call waits until
// the first is abandoned for sure.
func TestOverrun(t *testing.T) {
	prepare := func(r *rig, id string) error { return r.command(t.Context(), id) }
	release := func(r *rig, id string) error {
		_, err := r.Release(t.Context(), "b", &backendv1.ReleaseRequest{Devices: []*backendv1.HeldDevice{{Id: id}}})
		return err
	}
	tests := map[string]struct {
		slow, parallel func(r *rig, id string) error
		limit          func(*supervisor.Timing) *time.Duration
	}{
		"Prepare": {prepare, release, func(t *supervisor.Timing) *time.Duration { return &t.Prepare }},
		"Release": {release, prepare, func(t *supervisor.Timing) *time.Duration { return &t.Release }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			const limit, grace = time.Second, time.Second
			timing := fast()
			*test.limit(&timing), timing.Abandon = limit, grace
			r := newRig(t, timing)
			flag := filepath.Join(r.runDir, "flag")
			r.run(spec("normal", flagEnv, flag))
			pid := r.status().PID

			parallel := make(chan error, 1)
			go func() { parallel <- test.parallel(r, "wait") }()
			r.until(t, "the parallel call has begun", func() bool { return r.count("report b 2") == 1 })
			begin := time.Now()
			if err := test.slow(r, "slow"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the slow device: %v", err)
			}
			if err := prepare(r, "dev-1"); err != nil {
				t.Errorf("another device after it: %v", err)
			}
			if err := os.WriteFile(flag, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := <-parallel; err != nil {
				t.Errorf("the parallel call: %v", err)
			}
			if err := prepare(r, "slow"); err != nil {
				t.Errorf("the slow device's next call: %v", err)
			}
			if waited := time.Since(begin); waited < limit+grace {
				t.Errorf("the slow device's next call came after %s, not after %s and %s", waited, limit, grace)
			}
			if s := r.status(); s.PID != pid || s.Restarts != 0 || s.LastError != "" {
				t.Errorf("status = %+v, the process was %d", s, pid)
			}
		})
	}
}
