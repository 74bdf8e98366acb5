package supervisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/programs"
)

// Verifies that a backend starts, reports, answers calls, and has ended after Close.
func TestLife(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "1")
	r := newRig(t, fast())
	r.run(with(spec("normal", "EXTRA", "yes"), `{"count": 2}`))
	s := r.untilState(supervisor.Running)
	if s.PID != r.pid(t, "b", "pid") || s.Description.Version != "1.2.3" || s.Protocol != 1 || s.Restarts != 0 || s.Failed {
		t.Errorf("status = %+v", s)
	}
	if got := r.problem("b", "settings"); got != `{"count": 2}` {
		t.Errorf("settings = %s", got)
	}
	env := r.problem("b", "env")
	if !strings.Contains(env, "EXTRA=yes") || strings.Contains(env, "SECRET_OF_THE_HOST") {
		t.Errorf("environment = %s", env)
	}
	if err := r.command(t.Context(), "dev-1"); err != nil {
		t.Errorf("Prepare: %v", err)
	}
	if _, err := r.Release(t.Context(), "b", &backendv1.ReleaseRequest{Devices: []*backendv1.HeldDevice{{Id: "dev-1"}}}, func() {}); err != nil {
		t.Errorf("Release: %v", err)
	}
	ended := watchExit(t, s.PID)
	must(t, r.Close(t.Context()))
	ended()
	want := []string{"started b", "report b 1", "lost b"}
	if diff := cmp.Diff(want, r.history()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if !errors.Is(r.lost["b"], supervisor.ErrClosed) {
		t.Errorf("lost because %v", r.lost["b"])
	}
}

// Verifies that Apply is level-triggered: the same specs do nothing, a missing one stops.
func TestApply(t *testing.T) {
	r := newRig(t, fast())
	r.run(with(spec("normal"), `{"count": 2, "a": 1}`))
	pid := r.status().PID
	other := spec("normal")
	other.Name = "c"
	r.Apply([]supervisor.Spec{with(spec("normal"), `{"count": 2, "a": 1}`), other})
	r.until(t, "the other reports", func() bool { return r.count("report c 1") == 1 })
	if s := r.status(); s.PID != pid || s.Restarts != 0 || r.count("report b 1") != 1 {
		t.Errorf("the same spec again changed something: %+v", s)
	}
	ended := watchExit(t, pid)
	r.Apply([]supervisor.Spec{other})
	r.until(t, "b is lost", func() bool { return r.count("lost b") == 1 })
	ended()
	if !errors.Is(r.lost["b"], supervisor.ErrRemoved) {
		t.Errorf("lost because %v", r.lost["b"])
	}
}

// Verifies that a crash is reported, with its reason, that the backend is restarted, and that
// repeated crashes are a problem also while the backend runs, until its specification
// changes.
func TestCrash(t *testing.T) {
	timing := fast()
	timing.Window = time.Hour
	r := newRig(t, timing)
	r.run(spec("normal"))
	crash := func(restarts int) supervisor.Status {
		if err := r.command(t.Context(), "crash"); !errors.Is(err, supervisor.ErrNotRunning) {
			t.Errorf("a call that the process died in: %v", err)
		}
		var s supervisor.Status
		r.until(t, "it runs again", func() bool { s = r.status(); return s.State == supervisor.Running && s.Restarts == restarts })
		return s
	}
	s := crash(1)
	if !strings.Contains(s.LastError, "exited with status 5") || !strings.Contains(s.LastError, "the card fell off the bus") || len(s.Problems) > 0 {
		t.Errorf("after one crash: %s, problems %q", s.LastError, s.Problems)
	}
	want := []string{"started b", "report b 1", "lost b", "started b", "report b 1"}
	if diff := cmp.Diff(want, r.history()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	s = crash(2)
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "failed 2 times within 1h0m0s") || !strings.Contains(s.Problems[0], "the card fell off the bus") {
		t.Errorf("after the second crash: %q", s.Problems)
	}
	r.Apply([]supervisor.Spec{spec("normal", "OTHER", "1")})
	r.until(t, "the other runs", func() bool { s = r.status(); return s.Applied })
	if len(s.Problems) > 0 {
		t.Errorf("of another specification: %q", s.Problems)
	}
}

// Verifies that a backend that fails too often is quarantined, retried later, and recovers
// without a restart of the agent.
func TestQuarantine(t *testing.T) {
	timing := fast()
	timing.Failures, timing.Quarantine, timing.QuarantineLimit = 3, 50*time.Millisecond, 50*time.Millisecond
	r := newRig(t, timing)
	flag := filepath.Join(tempDir(t), "flag")
	r.Apply([]supervisor.Spec{spec("exit-until-flag", flagEnv, flag)})
	s := r.untilState(supervisor.Quarantined)
	if s.RetryAt.IsZero() || !s.Failed || !strings.Contains(s.LastError, "status 4") {
		t.Errorf("status in quarantine = %+v", s)
	}
	// It may have been tried again meanwhile.
	before, _, _ := strings.Cut(r.log.String(), "state=quarantined")
	if failed := strings.Count(before, "backend failed"); failed != 3 || s.Restarts < 2 {
		t.Errorf("in quarantine with failure %d, want the third; status = %+v", failed, s)
	}
	// Half-open: one try, and back into quarantine.
	r.until(t, "another try", func() bool { s = r.status(); return s.State == supervisor.Quarantined && s.Restarts >= 3 })
	must(t, os.WriteFile(flag, nil, 0o600))
	r.untilState(supervisor.Running)
}

// Verifies that another program file ends a quarantine immediately. That another spec does,
// TestStartFailures verifies.
func TestQuarantineEnds(t *testing.T) {
	timing := fast()
	timing.Failures = 2
	r := newRig(t, timing)
	script(t, r, "#!/bin/sh\nexit 1\n")
	bad := spec("normal")
	bad.Command = "script"
	target, err := filepath.EvalSymlinks(filepath.Join(r.backendDir, program))
	must(t, err)
	bad.Sandbox.Allowed.Read = []string{target}
	r.Apply([]supervisor.Spec{bad})
	r.untilState(supervisor.Quarantined)
	script(t, r, "#!/bin/sh\n"+roleEnv+"=normal exec "+filepath.Join(r.backendDir, program)+"\n")
	r.untilState(supervisor.Running)
}

// script installs a script as the program "script", by renaming, as packages do.
func script(t *testing.T, r *rig, text string) {
	t.Helper()
	path := filepath.Join(r.backendDir, "script")
	must(t, os.WriteFile(path+".new", []byte(text), 0o755))
	must(t, os.Rename(path+".new", path))
	programs.Manifest(t, path, usual)
}

// Verifies that changed settings reach the running process, and that refused ones change
// nothing, also not after a crash.
func TestReconfigure(t *testing.T) {
	r := newRig(t, fast())
	r.run(with(spec("normal"), `{"count": 1}`))
	pid := r.status().PID
	r.run(with(spec("normal"), `{"count": 2}`))
	r.until(t, "the new settings", func() bool { return r.problem("b", "settings") == `{"count": 2}` })
	if r.status().PID != pid {
		t.Error("changed settings restarted the process")
	}
	const want = "devices[2].memory: must be a power of two; the earlier settings stay in force"
	r.Apply([]supervisor.Spec{with(spec("normal"), `{"count": 3, "x": "refuse-me"}`)})
	s := r.untilError(want)
	if s.PID != pid || s.State != supervisor.Running || s.Applied || !s.Failed || !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, want) }) {
		t.Errorf("status with refused settings = %+v", s)
	}
	if err := r.command(t.Context(), "crash"); err == nil {
		t.Error("Prepare answered from a dead process")
	}
	r.until(t, "it is back", func() bool { s := r.status(); return s.State == supervisor.Running && s.PID != pid })
	if got := r.problem("b", "settings"); got != `{"count": 2}` {
		t.Errorf("settings after the crash = %s", got)
	}
	if s := r.status(); s.Applied || len(s.Problems) != 1 {
		t.Errorf("status after the crash = %+v", s)
	}
	r.run(with(spec("normal"), `{"count": 4}`))
	if s := r.status(); len(s.Problems) != 0 || s.Failed {
		t.Errorf("status after good settings = %+v", s)
	}
}

// Verifies that a running backend that does not answer Configure is restarted with its
// previous settings.
func TestReconfigureHangs(t *testing.T) {
	timing := fast()
	timing.Configure = 3 * time.Second // the first settings must be accepted within it
	r := newRig(t, timing)
	r.run(with(spec("normal"), `{"count": 1}`))
	ended := watchExit(t, r.status().PID)
	r.Apply([]supervisor.Spec{with(spec("normal"), `{"x": "hang-me"}`)})
	r.untilError("did not answer Configure within 3s")
	ended()
}

// Verifies that a backend that accepts settings and sends no inventory with their revision
// is restarted.
func TestAcceptedSettingsAreFollowed(t *testing.T) {
	timing := fast()
	timing.FirstInventory = 3 * time.Second
	r := newRig(t, timing)
	r.run(with(spec("normal"), `{"count": 1}`))
	ended := watchExit(t, r.status().PID)
	r.Apply([]supervisor.Spec{with(spec("normal"), `{"x": "ignore-me"}`)})
	r.untilError("it accepted settings, but sent no inventory with their revision within 3s")
	ended()
}

// Verifies that a process with another environment replaces the running one without a gap,
// and that a call in progress is finished.
func TestReplace(t *testing.T) {
	r := newRig(t, fast())
	flag := filepath.Join(tempDir(t), "flag")
	r.run(spec("normal", flagEnv, flag))
	old := r.status().PID
	ended := watchExit(t, old)
	answer := make(chan error, 1)
	go func() { answer <- r.command(t.Context(), "wait") }()
	r.until(t, "the call is going on", func() bool { return r.count("report b 2") == 1 })
	r.run(spec("normal", flagEnv, flag, "EXTRA", "1"))
	if now := r.pid(t, "b", "pid"); now == old {
		t.Error("the environment changed and the process did not")
	}
	must(t, os.WriteFile(flag, nil, 0o600))
	if err := <-answer; err != nil {
		t.Errorf("the call: %v", err)
	}
	ended()
	want := []string{"started b", "report b 1", "report b 2", "started b", "report b 1"}
	if diff := cmp.Diff(want, r.history()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Verifies that the old process keeps running and reporting while the new one fails to
// start, and that going back to its spec starts no process.
func TestReplaceFails(t *testing.T) {
	r := newRig(t, fast())
	r.run(spec("normal"))
	old := r.status().PID
	r.Apply([]supervisor.Spec{spec("exit")})
	s := r.untilError("status 3")
	if s.State != supervisor.Running || s.PID != old || s.Applied || !s.Failed || len(s.Problems) != 1 {
		t.Errorf("status = %+v", s)
	}
	if err := r.command(t.Context(), "changed"); err != nil {
		t.Errorf("the old process: %v", err)
	}
	r.until(t, "a report of the old process", func() bool { return r.count("report b 2") == 1 })
	r.run(spec("normal"))
	if s := r.status(); s.PID != old || r.count("lost b") != 0 {
		t.Errorf("status = %+v, calls %q", s, r.history())
	}
}

// Verifies that the previous process stays if its replacement's inventory is refused.
func TestReplaceRefused(t *testing.T) {
	r := newRig(t, fast())
	r.run(spec("normal"))
	old := r.status().PID
	r.mu.Lock()
	r.refuse = func(_ string, inv *inventory.Report) error {
		if strings.Contains(strings.Join(inv.GetProblems(), " "), "EXTRA=1") {
			return errors.New("too many devices")
		}
		return nil
	}
	r.mu.Unlock()
	r.Apply([]supervisor.Spec{spec("normal", "EXTRA", "1")})
	s := r.untilError("too many devices")
	if s.PID != old || s.State != supervisor.Running || r.count("lost b") != 0 || r.pid(t, "b", "pid") != old {
		t.Errorf("status = %+v, calls %q", s, r.history())
	}
}

// Verifies that a call continues when its caller's context ends, and that ended is called
// at the end of the call.
func TestCallOutlivesItsCaller(t *testing.T) {
	r := newRig(t, fast())
	flag := filepath.Join(tempDir(t), "flag")
	r.run(spec("normal", flagEnv, flag))
	impatient, leave := context.WithCancel(t.Context())
	left, ended := make(chan error, 1), make(chan struct{})
	go func() { left <- r.prepare(impatient, "wait", func() { close(ended) }) }()
	r.until(t, "the call is going on", func() bool { return r.count("report b 2") == 1 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	if err := r.command(t.Context(), "dev-1"); err != nil {
		t.Errorf("a call for another device: %v", err)
	}
	select {
	case <-ended:
		t.Error("the call ended with its caller")
	default:
	}
	must(t, os.WriteFile(flag, nil, 0o600))
	<-ended
}

func TestCallErrors(t *testing.T) {
	r := newRig(t, fast())
	if err := r.command(t.Context(), "dev-1"); !errors.Is(err, supervisor.ErrUnknownBackend) {
		t.Errorf("unknown backend: %v", err)
	}
	r.Apply([]supervisor.Spec{spec("silent")})
	if err := r.command(t.Context(), "dev-1"); !errors.Is(err, supervisor.ErrNotRunning) {
		t.Errorf("not running: %v", err)
	}
	r.run(spec("normal"))
	if _, err := r.Reset(t.Context(), "b", []string{"dev-1"}, func() {}); !errors.Is(err, supervisor.ErrNotSupported) {
		t.Errorf("not supported: %v", err)
	}
	err := r.command(t.Context(), "fail")
	if want := "backend b: Prepare: the bitstream? does not fit"; err == nil || err.Error() != want {
		t.Errorf("the backend's refusal = %v, want %s", err, want)
	}
}
