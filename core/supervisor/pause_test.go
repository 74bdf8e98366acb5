package supervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/supervisor"
)

const pausedWhile = "pausedWhile: [{label: acme.example/deploy.*, values: [paused-*]}]"

var upgrade = map[string]string{"acme.example/deploy.plugin": "paused-for-upgrade"}

// wantPaused waits until b has no process because of the label upgrade, and the sink knows.
func (r *rig) wantPaused() {
	r.t.Helper()
	s := r.untilState(supervisor.Paused)
	if s.PID != 0 || !s.Failed || s.Applied || !strings.Contains(s.Paused, "acme.example/deploy.plugin=paused-for-upgrade") || len(s.Problems) != 1 ||
		!strings.Contains(s.Problems[0], s.Paused) {
		r.t.Errorf("status while paused = %+v", s)
	}
	if !strings.Contains(r.unread("b"), s.Paused) {
		r.t.Errorf("the sink got the reason %q", r.unread("b"))
	}
}

// unread is why nothing could be looked at by the latest inventory; "" if the backend looked.
func (r *recorder) unread(backend string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.reports[backend]
	if report == nil {
		return ""
	}
	if all := report.GetUnread(); len(all) == 1 && all[0].GetDeviceId()+all[0].GetPciBusId() == "" {
		return all[0].GetReason()
	}
	return ""
}

// Verifies that a process ends while a node label pauses its backend, after the calls that it has, that there is none until
// the label changes, and that it then starts at once. That is no failure.
func TestPause(t *testing.T) {
	r := newRig(t, fast())
	r.describe(pausedWhile)
	flag := filepath.Join(tempDir(t), "flag")
	r.SetLabels(map[string]string{"acme.example/deploy.plugin": "true"})
	r.run(spec("normal", flagEnv, flag))
	ended := watchExit(t, r.status().PID)
	call := make(chan error, 1)
	reports := r.count("report b 2")
	go func() { call <- r.command(t.Context(), "wait") }()
	r.until(t, "the call is in progress", func() bool { return r.count("report b 2") > reports })
	r.SetLabels(upgrade)
	r.until(t, "the sink has the pause", func() bool { return r.unread("b") != "" })
	if s := r.untilState(supervisor.Stopping); s.Paused == "" {
		t.Errorf("status while the call goes on = %+v", s)
	}
	if err := r.command(t.Context(), "dev-1"); !errors.Is(err, supervisor.ErrNotRunning) || !strings.Contains(err.Error(), "paused-for-upgrade") {
		t.Errorf("another call: %v", err)
	}
	must(t, os.WriteFile(flag, nil, 0o600))
	if err := <-call; err != nil {
		t.Errorf("the call that was in progress: %v", err)
	}
	ended()
	r.wantPaused()
	// Neither the same label again nor another one starts it.
	r.SetLabels(map[string]string{"acme.example/deploy.plugin": "paused-for-upgrade", "zone": "a"})
	other := spec("normal")
	other.Name, other.Command = "c", program
	r.Apply([]supervisor.Spec{spec("normal", flagEnv, flag), other})
	r.until(t, "the other is paused", func() bool { return r.unread("c") != "" })
	r.wantPaused()

	r.SetLabels(nil)
	r.until(t, "both run", func() bool {
		all := r.Status()
		return len(all) == 2 && all[0].Applied && all[1].Applied
	})
	if s := r.status(); s.Restarts != 0 || s.LastError != "" || s.Paused != "" || len(s.Problems) > 0 {
		t.Errorf("status afterwards = %+v", s)
	}
	if strings.Contains(r.log.String(), "backend failed") {
		t.Error("the log has a failure")
	}
	if want := []string{"started b", "report b 1", "report b 2", "started b", "report b 1", "started b", "report b 1"}; !cmp.Equal(want, of("b", r.history())) {
		t.Errorf("calls (-want +got):\n%s", cmp.Diff(want, of("b", r.history())))
	}
}

// of returns the calls for a backend.
func of(backend string, calls []string) (all []string) {
	for _, call := range calls {
		if strings.Fields(call)[1] == backend {
			all = append(all, call)
		}
	}
	return all
}

// Verifies that a backend that is paused from the start has no process, that the pause is that of the newest manifest, and
// that a backend that is removed while it is paused is lost as such.
func TestPausedFromTheStart(t *testing.T) {
	r := newRig(t, fast())
	r.describe(pausedWhile)
	r.SetLabels(upgrade)
	r.Apply([]supervisor.Spec{spec("normal")})
	r.wantPaused()
	if strings.Contains(r.log.String(), "backend runs") {
		t.Errorf("it ran: %q", r.history())
	}
	r.Apply(nil)
	r.until(t, "it is removed", func() bool { return len(r.Status()) == 0 })
	if !errors.Is(r.lost["b"], supervisor.ErrRemoved) {
		t.Errorf("lost because %v", r.lost["b"])
	}
	r.Apply([]supervisor.Spec{spec("normal")})
	r.wantPaused()
	r.describe("pausedWhile: [{label: acme.example/deploy.*, values: [other]}]")
	r.until(t, "it runs by the new manifest", func() bool { return r.status().Applied })
	r.SetLabels(map[string]string{"acme.example/deploy.plugin": "other"})
	r.untilState(supervisor.Paused)
	r.describe(pausedWhile)
	r.until(t, "it runs by the older manifest", func() bool { return r.status().Applied })
}
