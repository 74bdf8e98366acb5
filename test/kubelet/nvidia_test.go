package kubelet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

const (
	nvidiaGPU = "nvidia.com/gpu"
	nvidiaMIG = "nvidia.com/mig-1g.10gb"
)

// driver is the double of NVIDIA's driver, as test/nvml in the module two
// directories up makes it.
type driver struct {
	*node
	dir string
}

// startNVIDIA is a node whose NVIDIA backend finds eight GPUs by the double, each
// advertised so many times. The driver is one without a recovery action, so that
// what an XID means is in the backend's table.
func startNVIDIA(t *testing.T, replicas int) *driver {
	t.Helper()
	d := &driver{node: newNode(t, realkubelet.Options{})}
	d.dir = filepath.Join(filepath.Dir(d.agent.ConfigFile()), "nvidia")
	random := filepath.Join(d.dir, "proc/sys/kernel/random")
	if err := os.MkdirAll(random, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(random, "boot_id"), []byte("11111111-1111-4111-8111-111111111111\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "run", "./test/nvml/nvmldouble", "-gpus", "8", d.dir)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make the double of NVIDIA's driver: %v\n%s", err, out)
	}
	d.say(nil, "recovery-action")
	d.agent.Args = []string{"--devfs", filepath.Join(d.dir, "dev"), "--procfs", filepath.Join(d.dir, "proc"), "--sysfs", filepath.Join(d.dir, "sys")}
	d.startKubelet()
	d.configure(agent.Config{
		Backend: agent.Backend{
			Name: "nvidia", Recovery: &agent.Recovery{Delay: "0s"},
			Env: map[string]string{
				"ACCELMUX_NVML_FILE":  filepath.Join(d.dir, "nvml.conf"),
				"ACCELMUX_NVML_CALLS": filepath.Join(d.dir, "nvml.calls"),
			},
			Settings: map[string]any{
				"library": filepath.Join(d.dir, "libnvidia-ml.so.1"), "rescan": "1s", "mig": map[string]any{"strategy": "mixed"},
				"edits": map[string]any{"driverRoot": filepath.Join(d.dir, "driver")},
			},
			Allow: &agent.Allow{Mounts: []string{d.dir + "/driver/**"}},
		},
		Resources: []agent.Resource{
			{Name: nvidiaGPU, Class: "gpu", Replicas: replicas},
			{Name: "nvidia.com/mig-{profile}", Class: "mig"},
		},
	})
	d.startAgent()
	d.wantCounts(nvidiaGPU, int64(8*replicas), int64(8*replicas))
	return d
}

// say adds lines to what the driver says, and takes those away that have a part in
// their key.
func (d *driver) say(lines []string, without ...string) {
	d.Helper()
	path := filepath.Join(d.dir, "nvml.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		d.Fatal(err)
	}
	kept := slices.DeleteFunc(slices.Collect(strings.Lines(string(text))), func(line string) bool {
		key, _, _ := strings.Cut(line, " = ")
		return slices.ContainsFunc(without, func(part string) bool { return strings.Contains(key, part) })
	})
	all := strings.Join(kept, "") + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(path+".next", []byte(all), 0o600); err != nil {
		d.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		d.Fatal(err)
	}
}

// uuid is that of the GPU in a slot of the double.
func uuid(slot int) string { return fmt.Sprintf("GPU-%08x-0000-4000-8000-000000000000", slot) }

// TestNVIDIALostGPU verifies that eight GPUs are advertised, that one in the middle
// that is lost costs one, also in the status of the pod that holds it, and that it
// comes back.
func TestNVIDIALostGPU(t *testing.T) {
	d := startNVIDIA(t, 1)
	d.specsHeld = true
	pod := d.admit("holder", nvidiaGPU, 8)
	names := d.cdiNames(d.startContainer(pod))
	for _, id := range d.held(pod, nvidiaGPU) {
		if !slices.Contains(names, "nvidia.accelmux.io/gpu="+id) {
			t.Errorf("the container holds %s and is given %v", id, names)
		}
	}
	record := d.kubelet.Record(nvidiaGPU, time.Millisecond)
	d.say([]string{"gpu.3.error.* = GPU_IS_LOST"})
	d.wantCounts(nvidiaGPU, 8, 7)
	d.wantPodHealth(pod, uuid(3), v1.ResourceHealthStatusUnhealthy)
	d.say(nil, "gpu.3.error")
	d.say([]string{"gpu.3.recovery-action = 0"})
	d.wantCounts(nvidiaGPU, 8, 8)
	d.wantNoDip(record, 7)
}
