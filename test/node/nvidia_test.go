package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/nvml"
)

const (
	nvidiaGPU = "nvidia.com/gpu"
	nvidiaMIG = "nvidia.com/mig-1g.10gb"

	// nvidiaDir is where the GPU Operator has its driver's container: its root file
	// system is in driver. Beside it are what the driver's library is to say, what
	// procfs is to say of MIG, and what the toolkit installs.
	nvidiaDir = "/run/nvidia"
	// nvidiaSeen is the same directory in the agent's pod.
	nvidiaSeen = "/driver-root" + nvidiaDir
	toolkit    = nvidiaDir + "/toolkit/nvidia-cdi-hook"
	hooksRun   = nvidiaDir + "/hooks.log"
)

// controlNodes are what every container with a GPU gets.
var controlNodes = []string{"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl"}

// The NVIDIA backend on a node with eight GPUs, by the chart's example for a driver
// in a container: pods get their GPUs with the driver's files, and the toolkit's
// hooks run; one GPU in the middle of the list falls off the bus, which costs this
// one alone, and comes back; a GPU is cut into MIG devices while pods run on others,
// and one of these is taken away again.
func TestNVIDIAGPUs(t *testing.T) {
	n := beginNVIDIA(t, 8)
	n.installNVIDIA(func(values, map[string]any) {})
	n.readProcFrom(nvidiaSeen + "/proc")
	n.wantCounts(nvidiaGPU, 8, 8)
	one := n.start("one", nvidiaGPU, 2)
	n.wantGPUs("one", 2, n.held("one", nvidiaGPU))
	hooks, err := os.ReadFile(hooksRun)
	if err != nil || !strings.Contains(string(hooks), "update-ldcache") {
		t.Errorf("the hooks that ran: %v, %q", err, hooks)
	}

	lost := n.held("one", nvidiaGPU)[1]
	n.update(func(s nvml.State) { s.GPU(slotOf(lost)).Fail(nvml.All, "GPU_IS_LOST") })
	n.wantCounts(nvidiaGPU, 8, 7)
	n.wantDeviceHealth("one", nvidiaGPU, lost, v1.ResourceHealthStatusUnhealthy)
	n.wantEvent("DeviceUnhealthy", lost)
	n.start("two", nvidiaGPU, 5)
	n.wantGPUs("two", 5, n.held("two", nvidiaGPU))
	n.update(func(s nvml.State) { s.GPU(slotOf(lost)).Mend(nvml.All) })
	n.wantCounts(nvidiaGPU, 8, 8)
	n.wantDeviceHealth("one", nvidiaGPU, lost, v1.ResourceHealthStatusHealthy)

	taken := slices.Concat(n.held("one", nvidiaGPU), n.held("two", nvidiaGPU))
	slot := 0
	for slices.Contains(taken, nvml.UUID(slot)) {
		slot++
	}
	if slot == 8 || len(taken) != 7 {
		t.Fatalf("of eight GPUs these are taken: %q", taken)
	}
	n.createMIG(slot, 0, 1)
	n.wantCounts(nvidiaMIG, 2, 2)
	n.wantCounts(nvidiaGPU, 7, 7)
	mig := n.start("mig", nvidiaMIG, 1)
	held := n.held("mig", nvidiaMIG)
	index := slices.Index([]string{nvml.MIGUUID(slot, 0), nvml.MIGUUID(slot, 1)}, strings.Join(held, " "))
	if index < 0 {
		t.Fatalf("the pod has %q", held)
	}
	n.wantInside("mig", "void", fmt.Sprintf("/dev/nvidia%d", slot), migNode(slot, index, 0), migNode(slot, index, 1))
	n.update(func(s nvml.State) { s.GPU(slot).MIG(1 - index).Remove() })
	n.wantCounts(nvidiaMIG, 1, 1)
	for _, pod := range []*v1.Pod{one, mig} {
		n.wantUntouched(pod)
	}
}

// nvidiaNode is the node with NVIDIA's driver in a container: what its library says
// is the test's.
type nvidiaNode struct {
	*node
	driver *nvml.Double
	host   nvml.Host
}

// beginNVIDIA takes the node, and gives it so many GPUs.
func beginNVIDIA(t *testing.T, gpus int) *nvidiaNode {
	t.Helper()
	if _, err := os.Stat(filepath.Join(bin, "accelmux-backend-nvidia")); err != nil {
		host.Lacks(t, "the NVIDIA backend was not built, which needs a C compiler: %v", err)
	}
	remove := func() {
		if err := os.RemoveAll(nvidiaDir); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(remove) // after the agent, whose driver it is
	n := &nvidiaNode{node: begin(t)}
	remove()
	host, err := nvml.NewContainedHost(nvidiaDir, gpus)
	if err != nil {
		t.Fatal(err)
	}
	// Where the backend looks for it by itself.
	library, err := nvml.Build(n.soon(), nvidiaDir+"/driver/usr/lib64")
	if err != nil {
		t.Fatal(err)
	}
	n.host = host
	if n.driver, err = nvml.New(library, nvidiaDir); err != nil {
		t.Fatal(err)
	}
	n.update(func(s nvml.State) {
		for slot := range gpus {
			s.AddGPU(slot)
		}
	})
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	n.write("proc/sys/kernel/random/boot_id", string(boot), 0o644)
	n.write("toolkit/nvidia-cdi-hook", "#!/bin/sh\necho \"$*\" >>"+hooksRun+"\n", 0o755)
	return n
}

func (n *nvidiaNode) write(name, text string, mode os.FileMode) {
	n.Helper()
	path := filepath.Join(nvidiaDir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
		n.Fatal(err)
	}
}

// update changes what the driver says.
func (n *nvidiaNode) update(change func(nvml.State)) {
	n.Helper()
	if err := n.driver.Update(change); err != nil {
		n.Fatal(err)
	}
}

// createMIG makes MIG devices of one slice, with the files that the kernel module has
// for them.
func (n *nvidiaNode) createMIG(slot int, indexes ...int) {
	n.Helper()
	for _, index := range indexes {
		if err := n.host.AddMIG(slot, index); err != nil {
			n.Fatal(err)
		}
	}
	n.update(func(s nvml.State) {
		for _, index := range indexes {
			s.AddMIG(slot, index, 1, 10<<10)
		}
	})
}

// migNode is the node of a MIG device's GPU instance or compute instance, as Host has
// them.
func migNode(slot, index, which int) string {
	return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 32*slot+2*index+which)
}

// slotOf is the slot of the GPU that a device or a share of it is.
func slotOf(id string) int {
	var slot int
	if _, err := fmt.Sscanf(id, "GPU-%08x", &slot); err != nil {
		return -1
	}
	return slot
}

// installNVIDIA installs the chart with its example, changed as that says for a
// driver in a container, and by change.
func (n *nvidiaNode) installNVIDIA(change func(example values, profile map[string]any)) {
	n.Helper()
	n.installNVIDIAExample("nvidia", change)
}

// installNVIDIAExample is installNVIDIA with another example.
func (n *nvidiaNode) installNVIDIAExample(name string, change func(example values, profile map[string]any)) {
	n.Helper()
	n.installExample(name, func(example values, profiles []map[string]any) {
		backend := profiles[0]["backends"].([]any)[0].(map[string]any)
		settings := backend["settings"].(map[string]any)
		edits := settings["edits"].(map[string]any)
		settings["rescan"] = "1s"
		// The agent reads the node's boot ID where its --procfs is.
		example["extraVolumeMounts"] = []values{{"name": "driver-root", "mountPath": "/driver-root", "readOnly": true}}
		edits["driverRoot"], edits["driverRootMount"], edits["hook"] = nvidiaDir+"/driver", nvidiaSeen+"/driver", toolkit
		backend["allow"] = map[string]any{"hooks": []string{toolkit}, "process": values{"read": []string{nvidiaSeen + "/**"}}}
		backend["env"] = map[string]string{"ACCELMUX_NVML_FILE": nvidiaSeen + "/nvml.conf"}
		change(example, profiles[0])
	})
}

// wantGPUs checks that the pod has so many GPUs, of these IDs, and in its container sees
// these alone, with the driver's files.
func (n *nvidiaNode) wantGPUs(pod string, count int, ids []string) {
	n.Helper()
	if len(ids) != count {
		n.Errorf("pod %s has %q, not %d GPUs", pod, ids, count)
	}
	var nodes []string
	for _, id := range ids {
		nodes = append(nodes, fmt.Sprintf("/dev/nvidia%d", slotOf(id)))
	}
	n.wantInside(pod, "void", nodes...)
	library := "/usr/lib64/libcuda.so." + nvml.DriverVersion
	if got := strings.TrimSpace(n.exec(pod, "ls", library)); got != library {
		n.Errorf("pod %s has no %s: %q", pod, library, got)
	}
}

// wantInside checks what the pod's container sees: NVIDIA_VISIBLE_DEVICES, and these
// nodes of NVIDIA's besides those that all get.
func (n *nvidiaNode) wantInside(pod, visible string, nodes ...string) {
	n.Helper()
	said := n.exec(pod, "sh", "-c", `echo "$NVIDIA_VISIBLE_DEVICES"; for d in /dev/nvidia* /dev/nvidia-caps/*; do [ -c $d ] && echo $d; done; true`)
	got := strings.Fields(said)
	want := append([]string{visible}, slices.Sorted(slices.Values(slices.Concat(controlNodes, nodes)))...)
	slices.Sort(got[min(1, len(got)):])
	if !slices.Equal(got, want) {
		n.Errorf("the container of pod %s sees %q, not %q", pod, got, want)
	}
}
