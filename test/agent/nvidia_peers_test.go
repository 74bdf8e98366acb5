package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/nvml"
)

// What users of other plugins complain of, each with a test of its own; the words in
// quotes are theirs.

// rarely has looks be so rare that none finds by itself what a test changes.
var rarely = []string{"rescan: 1s", "rescan: 1h"}

// configureOtherwise is configureNVIDIA with pairs of texts replaced.
func (n *nvidiaNode) configureOtherwise(settings string, replicas int, pairs ...string) {
	n.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(nvidiaConfig, pairs[i]) {
			n.Fatalf("the configuration has no %q", pairs[i])
		}
	}
	if settings != "" {
		settings = ", " + settings
	}
	n.configureNVIDIAWith(strings.NewReplacer(pairs...).Replace(nvidiaConfig), settings, replicas)
}

// "One GPU off the bus plus a kubelet restart: the process exits, the node loses all
// 8." Verifies that it loses the one.
func TestNVIDIALostGPUAndKubeletRestart(t *testing.T) {
	n := startNVIDIA(t, 8, "")
	pid := n.backend("nvidia").PID
	n.update(func(s nvml.State) { s.GPU(3).Fail(nvml.All, "GPU_IS_LOST") })
	n.wantCounts(nvidiaGPU, 8, 7)
	for range 3 {
		if err := n.kubelet.Restart(); err != nil {
			t.Fatal(err)
		}
		n.wantCounts(nvidiaGPU, 8, 7)
		n.wantFault(nvml.UUID(3), "gpu-lost")
	}
	if now := n.backend("nvidia").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// Verifies that a GPU that is lost keeps its identity though the process that saw it
// well is gone: by its place on the bus, and the kernel module's word for that.
func TestNVIDIALostGPUIsKnownByItsPlace(t *testing.T) {
	const gpus = 4
	n := newNVIDIANode(t, gpus)
	for slot := range gpus {
		at := strings.ToLower(strings.TrimPrefix(nvml.BusID(slot), "0000"))
		device := n.path("sys/bus/pci/devices", at)
		known := n.path("proc/driver/nvidia/gpus", at)
		err := errors.Join(os.MkdirAll(device, 0o755), os.MkdirAll(known, 0o755),
			os.WriteFile(filepath.Join(device, "vendor"), []byte("0x10de\n"), 0o644),
			os.WriteFile(filepath.Join(device, "device"), []byte("0x2330\n"), 0o644),
			os.WriteFile(filepath.Join(device, "class"), []byte("0x030200\n"), 0o644),
			os.Symlink("../../../../bus/pci/drivers/nvidia", filepath.Join(device, "driver")),
			os.WriteFile(filepath.Join(known, "information"), []byte("GPU UUID: \t "+nvml.UUID(slot)+"\n"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	n.configureNVIDIA("", 1)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, gpus, gpus)
	n.update(func(s nvml.State) { s.GPU(2).Fail(nvml.All, "GPU_IS_LOST") })
	n.wantCounts(nvidiaGPU, gpus, gpus-1)

	before := n.backend("nvidia")
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend is back", func() bool { return n.backend("nvidia").Generation > before.Generation })
	n.wantCounts(nvidiaGPU, gpus, gpus-1)
	n.wantFault(nvml.UUID(2), "gpu-lost")

	n.stopAgent()
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, gpus, gpus-1)
	n.wantFault(nvml.UUID(2), "gpu-lost")
	n.update(func(s nvml.State) { s.GPU(2).Mend(nvml.All) })
	n.wantCounts(nvidiaGPU, gpus, gpus)
}

// Verifies for each class of XIDs what becomes of the GPU, where the driver itself says
// nothing of it.
func TestNVIDIAClassesOfXIDs(t *testing.T) {
	n := newNVIDIANode(t, 5)
	n.oldDriver(5)
	n.configureNVIDIA("", 1)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 5, 5)
	recoveries := []string{"", "", "reset", "reboot", "replacement"}
	for slot, code := range []int{63, 31, 48, 79, 54} { // ignore, application, reset, reboot, replace
		n.event(fmt.Sprintf("gpu %d xid %d", slot, code))
	}
	n.wantCounts(nvidiaGPU, 5, 2)
	for slot, want := range recoveries {
		faults := n.device(nvml.UUID(slot)).Faults
		has := slices.ContainsFunc(faults, func(f status.Fault) bool { return strings.HasPrefix(f.Code, "xid-") && f.Recovery == want })
		if has != (want != "") || want == "" && len(faults) > 0 {
			t.Errorf("the faults of GPU %d are %+v, want one that needs %q", slot, faults, want)
		}
	}
}

// "A MIG change needs a restart of the plugin", and "CDI names returned that no spec
// defines, when device nodes come late". Verifies that a MIG device is listed by
// NVML's event, not by a look that happens to come; that it is not healthy before
// its nodes are there, and then soon is; and that the spec has it then.
func TestNVIDIAMIGComesAndItsNodesComeLater(t *testing.T) {
	n := newNVIDIANode(t, 2)
	n.createMIG(1, 0)
	n.configureOtherwise("mig: {strategy: mixed}", 1, rarely...)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 1, 1)
	n.wantCounts(nvidiaMIG, 1, 1)

	n.update(func(s nvml.State) { s.AddMIG(1, 1, 1, 10<<10) })
	n.event("gpu 1 type mig-config")
	n.wantCounts(nvidiaMIG, 2, 1)
	n.wantProblem(nvml.MIGUUID(1, 1), "capability is missing")
	if n.inSpec(nvml.MIGUUID(1, 1)) {
		t.Error("the CDI spec has a device without nodes")
	}
	if err := n.host.AddMIG(1, 1); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(nvidiaMIG, 2, 2)
	if !n.inSpec(nvml.MIGUUID(1, 1)) {
		t.Error("the CDI spec lacks a device that is advertised")
	}

	n.update(func(s nvml.State) { s.GPU(1).MIG(0).Remove() })
	n.event("gpu 1 type mig-config")
	n.eventually("it is gone", func() bool { return n.kubelet.State().Resources[nvidiaMIG].Allocatable == 1 })
}

func (n *nvidiaNode) inSpec(id string) bool {
	n.Helper()
	spec, err := os.ReadFile(n.path("cdi", "accelmux-nvidia-mig.json"))
	if err != nil {
		n.Fatal(err)
	}
	return strings.Contains(string(spec), id)
}

// "With 4 replicas a GPU fault marks one replica only." Verifies for MIG devices
// with replicas that a fault of one instance is that of its replicas and of no
// other's, and that a fault of the whole GPU is all's.
func TestNVIDIAFaultOfMIGReplicas(t *testing.T) {
	n := newNVIDIANode(t, 2)
	n.oldDriver(2)
	for index := range 3 {
		n.createMIG(1, index)
	}
	n.configureOtherwise("mig: {strategy: mixed}", 4, `"nvidia.com/mig-{profile}", class: mig`, `"nvidia.com/mig-{profile}", class: mig, replicas: 4`)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 4, 4)
	n.wantCounts(nvidiaMIG, 12, 12)
	n.mark(nvidiaGPU)
	n.event("gpu 1 xid 48 gi 2 ci 0")
	n.wantCounts(nvidiaMIG, 12, 8)
	n.event("gpu 1 xid 79")
	n.wantCounts(nvidiaMIG, 12, 0)
	n.wantNoDip(nvidiaGPU, 4)
}

// Verifies that the backend's process listens to the kernel, which tells of drivers
// that come late: it has a netlink socket of the protocol for uevents.
func TestNVIDIAListensToTheKernel(t *testing.T) {
	probe, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		host.Lacks(t, "there is no socket for uevents here: %v", err)
	}
	if err := unix.Close(probe); err != nil {
		t.Fatal(err)
	}
	n := startNVIDIA(t, 1, "")
	sockets, err := os.ReadFile("/proc/net/netlink")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sockets)) { // address, protocol, port ID, groups …
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[1] == fmt.Sprint(unix.NETLINK_KOBJECT_UEVENT) && fields[2] == fmt.Sprint(n.backend("nvidia").PID) {
			return
		}
	}
	t.Errorf("process %d has no socket for uevents:\n%s", n.backend("nvidia").PID, sockets)
}

// "No custom resource names, none by model." Verifies both, on one node.
func TestNVIDIANamesByModel(t *testing.T) {
	n := newNVIDIANode(t, 3)
	n.update(func(s nvml.State) { s.GPU(1).Set("name", "NVIDIA A100-SXM4-80GB") })
	n.configureOtherwise("", 1, "{name: nvidia.com/gpu, class: gpu, replicas: REPLICAS}",
		`{name: example.com/h100, class: gpu, selector: 'device.attributes["nvidia"].model.startsWith("H100")'}
      - {name: nvidia.com/a100, class: gpu, selector: 'device.attributes["nvidia"].model.startsWith("A100")'}`)
	n.startNVIDIAAgent()
	n.wantCounts("example.com/h100", 2, 2)
	n.wantCounts("nvidia.com/a100", 1, 1)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", "nvidia.com/a100", 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := allocation.Devices; !slices.Equal(got, []string{nvml.UUID(1)}) {
		t.Errorf("the A100 is %q, want %s", got, nvml.UUID(1))
	}
}

// Verifies that settings which name what is not there, or cannot be, are refused
// with the field's path, and that nothing that runs is touched.
func TestNVIDIABadInput(t *testing.T) {
	n := startNVIDIA(t, 2, "")
	pid := n.backend("nvidia").PID
	n.mark(nvidiaGPU)
	n.configureOtherwise("", 1, "driverRoot: DIR/driver", "driverRoot: DIR/no-driver")
	n.wantProblem("nvidia", "edits.driverRoot", "no-driver")
	n.configureNVIDIA("mps: {replicas: 1}", 1)
	n.wantProblem("nvidia", "mps.replicas")
	n.configureOtherwise("rescan: 30", 1, "rescan: 1s, ", "")
	n.wantProblem("nvidia", "rescan")
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", nvidiaGPU, 1); err != nil {
		t.Error(err)
	}
	n.configureNVIDIA("", 1)
	n.eventually("the good settings are in force", func() bool { return n.problems() == "" })
	n.wantNoDip(nvidiaGPU, 2)
	if now := n.backend("nvidia").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}
