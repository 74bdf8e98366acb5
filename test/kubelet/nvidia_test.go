package kubelet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	dir    string
	events int
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

// event brings an event of the driver, once the backend waits for such.
func (d *driver) event(text string) {
	d.Helper()
	d.eventually("the backend waits for events", func() bool {
		calls, err := os.ReadFile(filepath.Join(d.dir, "nvml.calls"))
		last := strings.LastIndex(string(calls), "nvmlInit_v2")
		return err == nil && strings.Contains(string(calls)[max(last, 0):], "nvmlEventSetWait_v2 - WAITS")
	})
	d.events++
	d.say([]string{fmt.Sprintf("event.%d = %s", d.events, text)})
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

// TestNVIDIAFaultSticks verifies that XID 79 takes every replica of one GPU, and
// that it stays over a restart of kubelet, a dead backend and a dead agent.
func TestNVIDIAFaultSticks(t *testing.T) {
	d := startNVIDIA(t, 2)
	d.specsHeld = true // the agent that is killed tidies nothing up
	d.event("gpu 5 xid 79")
	d.wantCounts(nvidiaGPU, 16, 14)
	if err := d.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	d.wantCounts(nvidiaGPU, 16, 14)

	before, err := d.agent.Status(d.soon())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before.Backends[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.eventually("the backend is back", func() bool {
		now, err := d.agent.Status(d.soon())
		return err == nil && now.Backends[0].State == "running" && now.Backends[0].PID != before.Backends[0].PID
	})
	d.wantFaulty(uuid(5), "xid-79")
	d.wantCounts(nvidiaGPU, 16, 14)

	if err := d.agent.Kill(); err != nil {
		t.Fatal(err)
	}
	d.startAgent()
	d.wantCounts(nvidiaGPU, 16, 14)
	d.wantFaulty(uuid(5), "xid-79")
}

func (d *driver) wantFaulty(id, code string) {
	d.Helper()
	device := d.device(id)
	if device.Healthy || len(device.Faults) == 0 || device.Faults[0].Code != code {
		d.Errorf("%s: %+v; want the fault %s", id, device, code)
	}
}

// TestNVIDIAMIGChanges verifies that a GPU that is put into MIG mode becomes MIG
// devices, and is whole again afterwards, under a running kubelet.
func TestNVIDIAMIGChanges(t *testing.T) {
	d := startNVIDIA(t, 1)
	d.say([]string{
		"gpu.7.mig.current = 1", "gpu.7.mig.0.uuid = MIG-7", "gpu.7.mig.0.gi = 1", "gpu.7.mig.0.ci = 0",
		"gpu.7.mig.0.name = NVIDIA H100 80GB HBM3 MIG 1g.10gb", "gpu.7.mig.0.attribute.memory = 10240",
	})
	d.wantCounts(nvidiaGPU, 7, 7)
	// The kernel's files for it come later.
	d.wantCounts(nvidiaMIG, 1, 0)
	d.capability(7, 1)
	d.wantCounts(nvidiaMIG, 1, 1)
	d.say([]string{"gpu.7.mig.current = 0"}, "gpu.7.mig.0")
	d.wantCounts(nvidiaMIG, 0, 0)
	d.wantCounts(nvidiaGPU, 8, 8)
}

// capability makes the kernel's files for a GPU instance with one compute instance.
func (d *driver) capability(slot, instance int) {
	d.Helper()
	for file, minor := range map[string]int{"access": 2 * instance, "ci0/access": 2*instance + 1} {
		path := filepath.Join(d.dir, fmt.Sprintf("proc/driver/nvidia/capabilities/gpu%d/mig/gi%d", slot, instance), file)
		node := filepath.Join(d.dir, fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", minor))
		for _, made := range []string{path, node} {
			if err := os.MkdirAll(filepath.Dir(made), 0o755); err != nil {
				d.Fatal(err)
			}
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "DeviceFileMinor: %d\n", minor), 0o644); err != nil {
			d.Fatal(err)
		}
		if err := os.Link(filepath.Join(d.dir, "dev/nvidiactl"), node); err != nil {
			d.Fatal(err)
		}
	}
}

// instance makes a MIG device of a profile on GPU 7, which is in MIG mode then.
func (d *driver) instance(number int, profile string) {
	d.Helper()
	d.capability(7, number)
	key := fmt.Sprintf("gpu.7.mig.%d.", number)
	d.say([]string{
		"gpu.7.mig.current = 1", key + "uuid = " + instanceID(number), fmt.Sprintf("%sgi = %d", key, number), key + "ci = 0",
		key + "name = NVIDIA H100 80GB HBM3 MIG " + profile, key + "attribute.memory = 10240",
	}, "gpu.7.mig.current")
}

func instanceID(number int) string { return fmt.Sprintf("MIG-7-%d", number) }

// TestNVIDIAMIGProfiles verifies that each MIG profile is a resource of its own as
// soon as a device has it, under a running kubelet and over its restart; that one
// without devices stays registered and is filled again; and that a pod keeps what
// it holds through all of it.
func TestNVIDIAMIGProfiles(t *testing.T) {
	const media, big = "nvidia.com/mig-1g.10gb.me", "nvidia.com/mig-3g.40gb"
	d := startNVIDIA(t, 1)
	d.specsHeld = true
	d.instance(0, "1g.10gb")
	d.instance(1, "1g.10gb+me")
	d.wantCounts(nvidiaMIG, 1, 1)
	d.wantCounts(media, 1, 1)
	holder := d.admit("holder", nvidiaMIG, 1)
	names := d.cdiNames(d.startContainer(holder))
	record := d.kubelet.Record(nvidiaMIG, 10*time.Millisecond)

	d.instance(2, "3g.40gb")
	d.wantCounts(big, 1, 1)
	d.say(nil, "gpu.7.mig.1.")
	d.wantCounts(media, 0, 0)
	bigHolder := d.admit("big", big, 1)
	if got := d.held(bigHolder, big); !slices.Equal(got, []string{instanceID(2)}) {
		t.Errorf("the pod that asked for %s holds %v", big, got)
	}
	d.startContainer(bigHolder)
	d.wantNoDip(record, 1)

	// Its device is of another profile now: the pod keeps it, nobody else gets it.
	d.say([]string{"gpu.7.mig.0.name = NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"}, "gpu.7.mig.0.name")
	d.wantCounts(nvidiaMIG, 0, 0)
	d.wantCounts(media, 1, 0)
	if err := d.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	d.wantCounts(nvidiaMIG, 0, 0)
	d.wantCounts(media, 1, 0)
	d.wantCounts(big, 1, 1)
	if again := d.cdiNames(d.startContainer(holder)); !slices.Equal(again, names) {
		t.Errorf("the container was given %v and on its restart %v", names, again)
	}
	if got := d.held(holder, nvidiaMIG); !slices.Equal(got, []string{instanceID(0)}) {
		t.Errorf("the pod from before holds %v", got)
	}
	d.say([]string{"gpu.7.mig.0.name = NVIDIA H100 80GB HBM3 MIG 1g.10gb"}, "gpu.7.mig.0.name")
	d.wantCounts(nvidiaMIG, 1, 1)
	d.wantCounts(media, 0, 0)
}
