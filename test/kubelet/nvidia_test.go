package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
	"github.com/accelmux/accelmux/test/nvml"
)

const nvidiaGPU = "nvidia.com/gpu"

// startNVIDIA is a node whose NVIDIA backend finds eight GPUs by the double of the driver's
// library. The driver is one without a recovery action, so that what an XID means is in the
// backend's table.
func startNVIDIA(t *testing.T) (*node, *nvml.Double) {
	t.Helper()
	n, dir := newNode(t, realkubelet.Options{}), t.TempDir()
	library, err := nvml.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nvml.NewHost(dir, 8); err != nil {
		t.Fatal(err)
	}
	double, err := nvml.New(library, dir)
	if err != nil {
		t.Fatal(err)
	}
	update(t, double, func(s nvml.State) {
		for slot := range 8 {
			s.AddGPU(slot).Delete("recovery-action")
		}
	})
	random := filepath.Join(dir, "proc/sys/kernel/random")
	if err := os.MkdirAll(random, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(random, "boot_id"), []byte("11111111-1111-4111-8111-111111111111\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.agent.Args = []string{"--devfs", filepath.Join(dir, "dev"), "--procfs", filepath.Join(dir, "proc"), "--sysfs", filepath.Join(dir, "sys")}
	n.startKubelet()
	n.configure(agent.Config{
		Backend: agent.Backend{
			Name: "nvidia", Recovery: &agent.Recovery{Delay: "0s"},
			Env:      map[string]string{"ACCELMUX_NVML_FILE": filepath.Join(dir, "nvml.conf")},
			Settings: map[string]any{"library": library, "rescan": "1s", "edits": map[string]any{"driverRoot": filepath.Join(dir, "driver")}},
			Allow:    &agent.Allow{Mounts: []string{dir + "/driver/**"}},
		},
		Resources: []agent.Resource{{Name: nvidiaGPU}},
	})
	n.startAgent()
	n.wantCounts(nvidiaGPU, 8, 8)
	return n, double
}

// update changes what the driver answers.
func update(t *testing.T, double *nvml.Double, change func(nvml.State)) {
	t.Helper()
	if err := double.Update(change); err != nil {
		t.Fatal(err)
	}
}

// TestNVIDIALostGPU verifies that eight GPUs are advertised, that one in the middle
// that is lost costs one, also in the status of the pod that holds it, and that it
// comes back.
func TestNVIDIALostGPU(t *testing.T) {
	n, double := startNVIDIA(t)
	pod := n.admit("holder", nvidiaGPU, 8)
	names := n.cdiNames(n.startContainer(pod))
	for _, id := range n.held(pod, nvidiaGPU) {
		if !slices.Contains(names, "nvidia.accelmux.io/gpu="+id) {
			t.Errorf("the container holds %s and is given %v", id, names)
		}
	}
	record := n.kubelet.Record(nvidiaGPU, time.Millisecond)
	update(t, double, func(s nvml.State) { s.GPU(3).Fail("*", "GPU_IS_LOST") })
	n.wantCounts(nvidiaGPU, 8, 7)
	n.wantPodHealth(pod, nvml.UUID(3), v1.ResourceHealthStatusUnhealthy)
	update(t, double, func(s nvml.State) { s.GPU(3).Mend("*").Set("recovery-action", 0) })
	n.wantCounts(nvidiaGPU, 8, 8)
	n.wantNoDip(record, 7)
}
