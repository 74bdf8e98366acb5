package supervisor_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/supervisor"
	manifests "github.com/accelmux/accelmux/test/programs"
)

// launch runs a launcher of the test program in its own backend directory, and returns its socket and how to end it.
func launch(t *testing.T, backendDir string) (socket string, end func()) {
	t.Helper()
	return serveAt(t, filepath.Join(tempDir(t), "shared", "launcher.sock"), backendDir)
}

func serveAt(t *testing.T, socket, backendDir string) (_ string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serveLauncher(ctx, socket, backendDir) }()
	ended := false
	end = func() {
		if cancel(); !ended {
			must(t, <-served)
		}
		ended = true
	}
	t.Cleanup(end)
	return socket, end
}

func serveLauncher(ctx context.Context, socket, backendDir string) error {
	return launcher.Serve(ctx, launcher.Options{
		Socket: socket, Log: slog.New(slog.DiscardHandler), Prepare: plug.Launched(backendDir, program, nil), Find: plug.FindLaunched(),
	})
}

// newLaunchedRig is a supervisor whose program runs at a launcher.
func newLaunchedRig(t *testing.T, socket string, timing supervisor.Timing) *rig {
	t.Helper()
	r := &rig{recorder: newRecorder(), t: t, backendDir: tempDir(t), runDir: tempDir(t), log: &buffer{}}
	r.install()
	r.launchers = map[string]string{program: socket}
	r.open(timing)
	t.Cleanup(func() { // before the supervisor's directory is checked
		must(t, r.Close(context.Background()))
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(socket), "plugin*")); len(left) > 0 {
			t.Errorf("left in the shared directory: %v", left)
		}
	})
	return r
}

// Verifies that a backend in another container starts, reports, answers, gets answers there, is restarted after a crash,
// and ends with the supervisor.
func TestLaunched(t *testing.T) {
	t.Parallel()
	programs := newRig(t, fast()).backendDir
	socket, _ := launch(t, programs)
	r := newLaunchedRig(t, socket, fast())
	r.run(with(spec("normal"), `{"count": 2}`))
	pid := r.pid(t, "b", "pid")
	if r.status().PID == pid {
		t.Error("it is a child of the supervisor")
	}
	if err := r.command(t.Context(), "dev-1"); err != nil {
		t.Errorf("Prepare: %v", err)
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	r.until(t, "a restart", func() bool { s := r.status(); return s.Restarts == 1 && s.State == supervisor.Running })
	if s := r.status(); !strings.Contains(s.LastError, "was killed by signal 9") {
		t.Errorf("the crash is reported as %q", s.LastError)
	}
	ended := watchExit(t, r.pid(t, "b", "pid"))
	must(t, r.Close(t.Context()))
	ended()
}

// Verifies that a container without a launcher is reported.
func TestNoLauncher(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(tempDir(t), "shared", "launcher.sock")
	timing := fast()
	timing.Start = 100 * time.Millisecond
	r := newLaunchedRig(t, socket, timing)
	r.Apply([]supervisor.Spec{spec("normal")})
	r.untilError("its container does not answer: find the directory")
	must(t, os.Mkdir(filepath.Dir(socket), 0o700))
	r.untilError("its container does not answer: dial")
}

// Verifies that another program in the other container is not started, nor one with another manifest, and that a launcher may come late.
func TestLaunchedElsewhere(t *testing.T) {
	t.Parallel()
	programs := newRig(t, fast()).backendDir
	path := filepath.Join(programs, program)
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, errors.Join(os.Remove(path), os.WriteFile(path, append(data, 0), 0o755)))
	socket := filepath.Join(tempDir(t), "shared", "launcher.sock")
	r := newLaunchedRig(t, socket, fast())
	r.Apply([]supervisor.Spec{spec("normal")})
	_, end := serveAt(t, socket, programs)
	r.untilError("the backend's container has another program or manifest than the agent's: the program")
	must(t, os.WriteFile(path, data, 0o755))
	manifests.Manifest(t, path, usual)
	r.untilError("the backend's container has another program or manifest than the agent's: the manifest")
	end()
	serveAt(t, socket, r.backendDir)
	r.untilState(supervisor.Running)
	must(t, r.Close(t.Context())) // the launcher waits for that
}
