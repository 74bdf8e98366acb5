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

	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/patience"
)

// startLimited starts a host with a user of its own and a limit of processes and threads
// above what host and backend need.
func startLimited(t *testing.T) *hostProcess {
	t.Helper()
	if os.Geteuid() != 0 {
		host.Lacks(t, "only root can start a process of another user, whose processes are counted apart")
	}
	const user = 59321
	r := newRig(t, fast())
	must(t, r.Close(t.Context()))
	// That user cannot read the test binary.
	self, err := os.ReadFile(filepath.Join(r.backendDir, program))
	must(t, err)
	copied := filepath.Join(r.backendDir, "copy")
	for _, err := range []error{
		os.WriteFile(copied, self, 0o755), os.Rename(copied, filepath.Join(r.backendDir, program)),
		os.Chmod(r.backendDir, 0o755), os.Chown(r.runDir, user, user),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return startHost(t, r, func(cmd *exec.Cmd) {
		cmd.Path = filepath.Join(r.backendDir, program)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
		cmd.Env = append(cmd.Env, reaperEnv+"=1", nprocEnv+"=150", backendEnv+"=normal")
	})
}

// Verifies that the core keeps running when a backend has exhausted the process IDs, and that
// nothing of that backend is left when it has ended, so that the next one can start.
func TestProcessesUsedUp(t *testing.T) {
	h := startLimited(t)
	if answer := h.command("bomb"); answer != "answer: <nil>\n" {
		t.Fatal(answer)
	}
	h.command(blockCommand)
	if answer := h.command("crash"); !strings.Contains(answer, "exited with status 5") {
		t.Fatalf("the end of the backend: %s", answer)
	}
	patience.Until(t, "the next backend is all that is left", func() bool {
		return h.command("dev-1") == "answer: <nil>\n" && len(childrenOf(t, h.Process.Pid)) == 1
	})
}

// Verifies that a backend with too many processes is ended, including its descendants.
func TestTooManyProcesses(t *testing.T) {
	r := newRig(t, fast())
	must(t, r.Close(t.Context()))
	h := startHost(t, r, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, reaperEnv+"=1", backendEnv+"=normal")
	})
	ended := watchExit(t, h.backend)
	h.command("sleepers")
	ended()
	patience.Until(t, "the next backend is all that is left", func() bool {
		return h.command("dev-1") == "answer: <nil>\n" && len(childrenOf(t, h.Process.Pid)) == 1
	})
}

// Verifies that the kernel prefers a backend to the core when memory runs out.
func TestVictim(t *testing.T) {
	r := newRig(t, fast())
	r.run(spec("normal"))
	score := func(pid string) int {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "oom_score_adj"))
		must(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		must(t, err)
		return n
	}
	own, backend := score("self"), score(fmt.Sprint(r.status().PID))
	if want := min(own+1000, 1000); backend != want {
		t.Errorf("oom_score_adj is %d, want %d", backend, want)
	}
}
