package kubelet

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

func otherRoot(o *realkubelet.Options) { o.OtherRoot = true }

// TestOtherRootDirectory verifies for a kubelet with another --root-dir, in which device-plugins is not, that the agent with both
// directories has its resources registered in both ways and sees who has a device; that the root directory is found by what the
// kernel lists; and that with one directory for both, status and doctor say which of the two options is wrong.
func TestOtherRootDirectory(t *testing.T) {
	n := newNode(t, realkubelet.Options{OtherRoot: true})
	n.startKubelet()
	if got := kubeletdir.Find(n.soon(), n.procfs(), n.agent.KubeletDir()); got != n.kubelet.Root() {
		t.Errorf("kubelet's root directory is found as %q, want %q", got, n.kubelet.Root())
	}
	config := mock{Count: 2}.config(n)
	n.configure(config)

	n.startAgent() // with --kubelet-dir alone
	n.wantCounts(gpu, 2, 2)
	n.eventually("a problem names the option for the root directory", func() bool {
		report, err := n.agent.Status(n.soon())
		return err == nil && len(report.Problems) == 1 && strings.Contains(report.Problems[0].Message, "/pod-resources/kubelet.sock does not exist: does kubelet run, and is --kubelet-root-dir right?")
	})
	n.wantDoctor("", "set --kubelet-root-dir of the agent (in the chart hostPaths.kubelet) to "+n.kubelet.Root())

	n.replaceAgent("--kubelet-dir", n.kubelet.Root())
	n.eventually("the agent lists kubelet's pods", func() bool {
		report, err := n.agent.Status(n.soon())
		return err == nil && len(report.Resources) == 1 && len(report.Problems) == 0
	})
	n.wantDoctor("set --kubelet-dir of the agent (in the chart hostPaths.devicePlugins) to /var/lib/kubelet", "")

	for _, registration := range []string{"socket", "watcher"} {
		config.Resources[0].Registration = registration
		n.configure(config)
		n.replaceAgent("--kubelet-root-dir", n.kubelet.Root())
		n.wantCounts(gpu, 2, 2)
		n.wantDoctor("", "")
		pod := n.admit(registration, gpu, 1)
		n.startContainer(pod)
		id := n.held(pod, gpu)[0]
		n.eventually("the agent knows the pod by name", func() bool {
			holders := n.device(id).Holders
			return len(holders) == 1 && holders[0].Pod == registration
		})
		beside := n.admit("beside", gpu, 1) // with it, the list is not empty
		n.kubelet.RemovePod(pod)
		n.wantReleased(id)
		if report, err := n.agent.Status(n.soon()); err != nil || len(report.Problems) > 0 {
			t.Errorf("%v, problems %+v; want none", err, report.Problems)
		}
		n.kubelet.RemovePod(beside)
	}
}

// TestClaimWithOtherRootDirectory verifies that claims are prepared by a kubelet with another --root-dir.
func TestClaimWithOtherRootDirectory(t *testing.T) {
	n := newClaimNode(t, otherRoot)
	n.agent.Args = append(n.agent.Args, "--kubelet-root-dir", n.kubelet.Root())
	n.run(mock{Count: 2})
	claim := n.claim("claim", class, 1)
	pod := n.schedule("pod", claim)
	n.wantNames(n.prepare(pod), "mock", claim)
	ids := n.ids(claim)
	n.finish(pod)
	n.wantHeld(false, ids...)
}

// replaceAgent stops the agent and starts it with these arguments after its usual ones.
func (n *node) replaceAgent(args ...string) {
	n.Helper()
	if _, err := n.agent.Stop(); err != nil {
		n.Fatal(err)
	}
	n.agent.Args = args
	n.startAgent()
}

// procfs makes a procfs in which process 1 has this node's sockets, and no other kubelet's.
func (n *node) procfs() string {
	n.Helper()
	all, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		n.Fatal(err)
	}
	var ours []byte
	for line := range bytes.Lines(all) {
		if bytes.Contains(line, []byte(filepath.Dir(n.agent.KubeletDir()))) {
			ours = append(ours, line...)
		}
	}
	dir := n.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "1", "net"), 0o700); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "1", "net", "unix"), ours, 0o600); err != nil {
		n.Fatal(err)
	}
	return dir
}

// wantDoctor waits until the steps for kubelet's directories say to do this; "" if they are ok.
func (n *node) wantDoctor(plugins, root string) {
	n.Helper()
	procfs := n.procfs()
	n.eventually("doctor says what is wrong with kubelet's directories", func() bool {
		cmd := exec.CommandContext(n.soon(), filepath.Join(n.bin, "accelmux"), "doctor", "-o", "json", "--run-dir", n.agent.RunDir(), "--procfs", procfs)
		out, _ := cmd.Output() // it exits with 1 where something stops
		var result struct {
			Steps []struct{ Step, State, Do string }
		}
		if err := json.Unmarshal(out, &result); err != nil {
			return false
		}
		right := 0
		for _, s := range result.Steps {
			want, isOf := map[string]string{"kubelet": plugins, "kubelet's root directory": root}[s.Step]
			if isOf && (s.State == "ok") == (want == "") && strings.HasPrefix(s.Do, want) {
				right++
			}
		}
		return right == 2
	})
}
