package supervisor_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/patience"
)

// playCompanion writes its process ID to the file that its second argument names, unless
// another companion is at work.
func playCompanion(args []string) {
	file, err := os.OpenFile(args[1], os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		syscall.Exit(0)
	}
	if err = file.Truncate(0); err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	for { // The host may have started it as it was killed: it ends when the test removes the file.
		if _, err := os.Stat(args[1]); err != nil {
			syscall.Exit(0)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// companionAfter waits for a companion other than the given one, which has ended, and
// returns its process ID. It is killed after the test.
func companionAfter(t *testing.T, file string, before int) (pid int, ended func()) {
	t.Helper()
	patience.Until(t, "a companion runs", func() bool {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && pid != before
	})
	return pid, watchExit(t, pid)
}

// Verifies that a companion outlives crashes of its backend and the end of the agent, that a
// later agent starts no second one, and that it is started again after it has ended.
func TestCompanion(t *testing.T) {
	r := newRig(t, fast())
	must(t, r.Close(t.Context()))
	file := filepath.Join(tempDir(t), "companion")
	must(t, os.WriteFile(file, nil, 0o600)) // a companion that comes after its removal makes no other
	start := func() *hostProcess {
		return startHost(t, r, func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, backendEnv+"=accompanied", reaperEnv+"=1", flagEnv+"="+file)
		})
	}
	h := start()
	first, ended := companionAfter(t, file, 0)
	if session, err := unix.Getsid(first); err != nil || session != first {
		t.Errorf("its session is %d, %v; want %d", session, err, first)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", first)); err != nil || strings.Contains(string(env), "PLUGIN_") {
		t.Errorf("its environment is %q, %v; want no variables of the handshake", env, err)
	}
	must(t, unix.Kill(first, unix.SIGKILL))
	ended()
	second, _ := companionAfter(t, file, first)
	for range 2 {
		crash(t, h)
		must(t, h.Process.Kill())
		_ = h.Wait()
		h = start()
		crash(t, h)
	}
	if now, _ := companionAfter(t, file, 0); now != second || unix.Kill(second, 0) != nil {
		t.Errorf("the companion is process %d, and alive: %v; want %d alive", now, unix.Kill(second, 0) == nil, second)
	}
}

// crash crashes the backend and waits until another process of it runs.
func crash(t *testing.T, h *hostProcess) {
	t.Helper()
	if answer := h.command("crash"); !strings.Contains(answer, "exited with status 5") {
		t.Fatalf("the end of a backend: %s", answer)
	}
	for h.command("dev-1") != "answer: <nil>\n" {
	}
}

// Verifies that a backend gets no companion that it has not declared.
func TestUndeclaredCompanion(t *testing.T) {
	r := newRig(t, fast())
	r.Apply([]supervisor.Spec{spec("companion-undeclared")})
	r.until(t, "it is refused", func() bool {
		return strings.Contains(r.status().LastError, `companion "companion", which is not in its needs`)
	})
}
