package supervisor_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/test/host"
)

// Verifies that backends end with a killed agent, and that the next agent with its run
// directory ends their children, also if the directory's path is a link.
func TestHostKilled(t *testing.T) {
	for _, linked := range []bool{false, true} {
		r := newRig(t, fast())
		must(t, r.Close(t.Context()))
		if linked {
			link := filepath.Join(tempDir(t), "link")
			must(t, os.Symlink(r.runDir, link))
			r.runDir = link
		}
		h := startHost(t, r, nil)
		backendEnded, childEnded := watchExit(t, h.backend), watchExit(t, h.child)
		must(t, h.Process.Kill())
		_ = h.Wait()
		backendEnded()
		run := filepath.Join(r.runDir, "backends")
		if left, err := os.ReadDir(run); err != nil || len(left) == 0 {
			t.Fatalf("the killed host left nothing to sweep: %v %v", left, err)
		}
		r.open(fast())
		childEnded()
		if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
			t.Errorf("not swept: %v %v", left, err)
		}
	}
}

// Verifies that an agent does not end the backends of another agent with the same run
// directory's path in another mount namespace, as in containers that share the node's
// process IDs.
func TestOtherAgentsBackends(t *testing.T) {
	if os.Geteuid() != 0 {
		host.Lacks(t, "only root can make mount namespaces")
	}
	r := newRig(t, fast())
	must(t, r.Close(t.Context()))
	h := startHost(t, r, func(cmd *exec.Cmd) {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
		cmd.Env = append(cmd.Env, mountEnv+"=tmpfs:"+r.runDir)
	})
	r.open(fast())
	if answer := h.command("dev-1"); answer != "answer: <nil>\n" {
		t.Errorf("the other agent's backend after this one started: %s", answer)
	}
}

// Verifies that the environment alone is no reason to end a process.
func TestEnvironmentAlone(t *testing.T) {
	r := newRig(t, fast())
	must(t, r.Close(t.Context()))
	cat := exec.CommandContext(t.Context(), "cat")
	cat.Env = []string{"PLUGIN_UNIX_SOCKET_DIR=" + filepath.Join(r.runDir, "backends", "plugin-dir1")}
	in, err := cat.StdinPipe()
	must(t, err)
	out, err := cat.StdoutPipe()
	must(t, err)
	must(t, cat.Start())
	r.open(fast())
	if _, err := in.Write([]byte("alive\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "alive\n" {
		t.Errorf("it answers %q, %v", line, err)
	}
	_ = in.Close()
	if err := cat.Wait(); err != nil {
		t.Error(err)
	}
}
