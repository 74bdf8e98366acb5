package plug

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Verifies that a process whose parent has ended is its backend's, and not another's or one of nobody.
func TestOrphans(t *testing.T) {
	subreaper := func(on uintptr) {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	subreaper(1) // as an agent with a Reaper; no other test runs meanwhile
	defer subreaper(0)
	orphan := func(env ...string) int {
		cmd := exec.Command("/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
		cmd.Env = env
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = unix.Wait4(pid, nil, 0, nil)
		})
		return pid
	}
	of := func(name, dir string) *Process { return &Process{name: name, run: &process{group: &group{dir: dir}}} }
	r := &Room{processes: map[*Process]bool{of("a", "/run/a1"): true, of("a", "/run/a2"): true, of("b", "/run/b1"): true}}
	for dir, backend := range map[string]string{"/run/a1": "a", "/run/a2": "a", "/run/b1": "b", "/run/earlier": "", "": ""} {
		pid := orphan(socketDirVariable + dir)
		for _, name := range []string{"a", "b"} {
			if is := r.started(name)(pid); is != (name == backend) {
				t.Errorf("an orphan with the socket directory %q: it is %s's: %v", dir, name, is)
			}
		}
	}
}
