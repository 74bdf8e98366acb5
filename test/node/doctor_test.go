package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestDoctor verifies what the doctor finds on a real node, in the agent's pod and on the node itself: that
// what works is ok, also in the container runtime, kubelet and the API server, and at which step a
// device stops that is unhealthy, whose specs the runtime does not read, or of which kubelet has ended.
func TestDoctor(t *testing.T) {
	n := begin(t)
	n.installClaims()
	n.play("devices: {mock-0: {fault: {code: hot, recovery: self, message: too hot}}}")
	inPod := []string{"kubectl", "exec", "--namespace=" + namespace, n.agentPod().Name, "--", "accelmux", "doctor", "-o=json"}
	onNode := []string{
		filepath.Join(os.Getenv("ACCELMUX_BIN"), "accelmux"), "doctor", "-o=json", "--run-dir=" + runDirs()[0],
		"--kubeconfig=" + os.Getenv("KUBECONFIG"), "--containerd-config=conf/containerd.toml",
	}
	n.wantDoctor(inPod, map[string]string{"mock-0": "inventory"}, "container runtime")
	n.wantDoctor(onNode, map[string]string{"mock-0": "inventory"})
	n.play("{}")
	n.wantDoctor(onNode, nil)

	other := filepath.Join(t.TempDir(), "containerd.toml")
	if err := os.WriteFile(other, []byte("version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/etc/cdi']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stopped := map[string]string{}
	for i := range 8 {
		stopped[fmt.Sprint("mock-", i)] = "container runtime"
	}
	n.wantDoctor(append(slices.Clone(onNode), "--containerd-config="+other), stopped)
}

// wantDoctor waits until the command prints that exactly these devices stop, at these steps, and that exactly these
// other steps are not checked.
func (n *node) wantDoctor(command []string, stopped map[string]string, unchecked ...string) {
	n.Helper()
	var out string
	defer func() {
		if n.Failed() {
			n.Logf("the doctor printed %s", out)
		}
	}()
	n.eventually(fmt.Sprintf("the doctor finds %v", stopped), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), askLimit)
		defer cancel()
		out, _ = run(ctx, "sh", append([]string{"-c", `"$@" 2>/dev/null`, "sh"}, command...)...) // exit status 1: something stops
		var result struct {
			Steps   []struct{ Step, State string }
			Devices []struct{ ID, StopsAt string }
		}
		if json.Unmarshal([]byte(out), &result) != nil || len(result.Devices) != 8 {
			return false
		}
		for _, d := range result.Devices {
			if d.StopsAt != stopped[d.ID] {
				return false
			}
		}
		var notChecked []string
		for _, s := range result.Steps {
			if s.State == "not checked" {
				notChecked = append(notChecked, s.Step)
			}
		}
		return slices.Equal(notChecked, unchecked)
	})
}
