package supervisor_test

import (
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

// childrenOf returns the IDs of a process's children, including zombies.
func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d: %v", pid, err)
	}
	var all []string
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		must(t, err)
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// Verifies that an agent reaps the orphans of its backends, as PID 1 of a container and
// elsewhere, and still gets the exit statuses of its own processes.
func TestReaper(t *testing.T) {
	for name, flags := range map[string]uintptr{"PID 1": syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, "subreaper": 0} {
		t.Run(name, func(t *testing.T) {
			if flags != 0 && os.Geteuid() != 0 {
				host.Lacks(t, "only root can make namespaces")
			}
			r := newRig(t, fast())
			must(t, r.Close(t.Context()))
			h := startHost(t, r, func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, backendEnv+"=orphans", reaperEnv+"=1")
				if flags != 0 {
					cmd.SysProcAttr.Cloneflags = flags
					cmd.Env = append(cmd.Env, mountEnv+"=proc:/proc")
				}
			})
			patience.Until(t, "only the backend is left", func() bool { return len(childrenOf(t, h.Process.Pid)) == 1 })
			for range 10 {
				crash(t, h)
			}
			patience.Until(t, "only the last backend is left", func() bool { return len(childrenOf(t, h.Process.Pid)) == 1 })
		})
	}
}
