package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/nvml"
)

// Verifies that eight GPUs become eight units of nvidia.com/gpu, and that a
// container gets its GPU's node, the driver's files and the hooks that make them
// known.
func TestNVIDIAGPUs(t *testing.T) {
	n := startNVIDIA(t, 8, "")
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", nvidiaGPU, 1)
	if err != nil {
		t.Fatal(err)
	}
	id := allocation.Devices[0]
	if got := allocation.Response.GetCdiDevices(); len(got) != 1 || !strings.HasSuffix(got[0].GetName(), "="+id) {
		t.Errorf("CDI devices %v, want that of %s", got, id)
	}
	spec, err := os.ReadFile(n.path("cdi", "accelmux-nvidia-gpu.json"))
	if err != nil {
		t.Fatal(err)
	}
	for slot := range 8 {
		for _, want := range []string{fmt.Sprintf(`"/dev/nvidia%d"`, slot), nvml.UUID(slot)} {
			if !strings.Contains(string(spec), want) {
				t.Errorf("the CDI spec has no %s", want)
			}
		}
	}
	for _, want := range []string{"/dev/nvidiactl", "/usr/lib64/libcuda.so." + nvml.DriverVersion, "/usr/bin/nvidia-cdi-hook"} {
		if !strings.Contains(string(spec), want) {
			t.Errorf("the CDI spec has no %s", want)
		}
	}
	if got := n.device(id).Attributes["model"]; got != "H100 80GB HBM3" {
		t.Errorf("model %v", got)
	}
}

// Verifies that files of the driver which the configuration does not allow cost those
// files, with a problem, and no GPU.
func TestNVIDIAFilesThatAreNotAllowed(t *testing.T) {
	n := newNVIDIANode(t, 8)
	for _, file := range []string{
		"etc/X11/xorg.conf.d/10-nvidia.conf", "etc/glvnd/egl_vendor.d/10_nvidia.json", "etc/egl/egl_external_platform.d/15_nvidia_gbm.json",
		"usr/local/share/vulkan/icd.d/nvidia_icd.json",
	} {
		path := n.path("driver", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	libraries := strings.Replace(nvidiaConfig, "        settings: {", "        allow: {declared: refuse, devices: [/dev/nvidia*], "+
		"mounts: [DIR/driver/usr/lib64/**], hooks: [/usr/bin/nvidia-cdi-hook], env: [NVIDIA_*]}\n        settings: {", 1)
	n.configureNVIDIAWith(libraries, "", 1)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 8, 8)
	n.wantProblem("8 devices are listed without optional edits", "/etc/glvnd/**")
	spec, err := os.ReadFile(n.path("cdi", "accelmux-nvidia-gpu.json"))
	if err != nil || !strings.Contains(string(spec), "libcuda.so") || strings.Contains(string(spec), "10_nvidia.json") {
		t.Errorf("the CDI spec has not just the files that are allowed (%v):\n%s", err, spec)
	}
	n.configureNVIDIAWith(nvidiaConfig, "", 1) // with all that is declared
	n.eventually("the files are in the CDI spec", func() bool {
		spec, err := os.ReadFile(n.path("cdi", "accelmux-nvidia-gpu.json"))
		return err == nil && strings.Contains(string(spec), "10_nvidia.json")
	})
	n.wantCounts(nvidiaGPU, 8, 8)
}

// Verifies that without CDI a container with several GPUs is told of all of them,
// each once, also if it has several replicas of one.
func TestNVIDIAWithoutCDI(t *testing.T) {
	for replicas, more := range map[int]string{1: "", 2: "maxReplicasPerContainer: 0, "} {
		n := newNVIDIANode(t, 3)
		n.configureNVIDIAWith(strings.NewReplacer("edits: {driverRoot: DIR/driver}", "edits: {mode: runtime}",
			"class: gpu, ", "class: gpu, injection: plain, "+more).Replace(nvidiaConfig), "", replicas)
		n.startNVIDIAAgent()
		n.wantCounts(nvidiaGPU, 3*replicas, 3*replicas)
		allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", nvidiaGPU, 3*replicas)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join([]string{nvml.UUID(0), nvml.UUID(1), nvml.UUID(2)}, ",")
		if got := allocation.Response.GetEnvs()["NVIDIA_VISIBLE_DEVICES"]; got != want {
			t.Errorf("%d replicas: NVIDIA_VISIBLE_DEVICES is %q, want %q", replicas, got, want)
		}
		var nodes []string
		for _, d := range allocation.Response.GetDevices() {
			nodes = append(nodes, d.GetContainerPath())
		}
		for slot := range 3 {
			if !slices.Contains(nodes, fmt.Sprintf("/dev/nvidia%d", slot)) {
				t.Errorf("%d replicas: device nodes %v, want that of GPU %d too", replicas, nodes, slot)
			}
		}
	}
}

// "An unhealthy device never recovers until the plugin restarts."
// Verifies that a GPU that falls off the bus in the middle of the list costs one
// unit, that it is told which, and that it comes back when the driver says so.
func TestNVIDIALostGPUCostsOne(t *testing.T) {
	n := startNVIDIA(t, 8, "")
	n.mark(nvidiaGPU)
	n.update(func(s nvml.State) { s.GPU(3).Fail(nvml.All, "GPU_IS_LOST") })
	n.wantCounts(nvidiaGPU, 8, 7)
	n.wantFault(nvml.UUID(3), "gpu-lost")
	n.wantProblem(nvml.UUID(3), "lost")
	n.wantNoDip(nvidiaGPU, 7)
	n.update(func(s nvml.State) { s.GPU(3).Mend(nvml.All) })
	n.wantCounts(nvidiaGPU, 8, 8)
}

// "A kubelet restart resurrects a bad GPU."
// Verifies that a GPU with XID 79 stays out of service over a restart of kubelet,
// the death of the backend and a restart of the agent, although the driver says no
// more of it; and that a new boot brings it back. The driver names instances of a GPU
// that has none, as NVIDIA's mock does: the fault is the GPU's.
func TestNVIDIAFaultSticks(t *testing.T) {
	n := newNVIDIANode(t, 4)
	n.update(func(s nvml.State) { s.LikeNVIDIAMock(0, 1, 2, 3) })
	n.configureNVIDIA("", 1)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 4, 4)
	n.event("gpu 2 xid 79")
	n.wantCounts(nvidiaGPU, 4, 3)

	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(nvidiaGPU, 4, 3)

	before := n.backend("nvidia")
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend is back", func() bool { return n.backend("nvidia").Generation > before.Generation })
	n.wantFault(nvml.UUID(2), "xid-79")
	n.wantCounts(nvidiaGPU, 4, 3)

	n.stopAgent()
	n.startNVIDIAAgent()
	n.wantFault(nvml.UUID(2), "xid-79")
	n.wantCounts(nvidiaGPU, 4, 3)

	n.stopAgent()
	n.boot(secondBoot)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 4, 4)
}

// "With 4 replicas a GPU fault marks one replica only."
// Verifies that XIDs that are an application's fault cost nothing, that replicas
// share the fate of their GPU, and that the driver's word that a GPU needs nothing
// ends its fault.
func TestNVIDIAXIDs(t *testing.T) {
	n := newNVIDIANode(t, 2)
	n.oldDriver(2)
	n.configureNVIDIA("", 4)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 8, 8)
	n.mark(nvidiaGPU)
	for _, code := range []int{13, 31, 43, 45, 68} {
		n.event(fmt.Sprintf("gpu 0 xid %d", code))
	}
	// Events are judged in their order, so those before are, too.
	n.event("gpu 1 xid 48")
	n.wantCounts(nvidiaGPU, 8, 4)
	n.wantNoDip(nvidiaGPU, 4)
	n.wantFault(nvml.UUID(1), "xid-48")
	if faults := n.device(nvml.UUID(0)).Faults; len(faults) > 0 {
		t.Errorf("an application's XID is a fault of the GPU: %+v", faults)
	}
	n.update(func(s nvml.State) { s.GPU(1).Set("recovery-action", 0) })
	n.wantCounts(nvidiaGPU, 8, 8)
}

// "Driver loads late: waiting indefinitely", and "NVML broken, yet devices stay
// advertised".
// Verifies that a driver that comes late, goes, and comes again is taken up
// without a restart of the backend, and that GPUs without their driver are not
// advertised as healthy.
func TestNVIDIADriverComesLate(t *testing.T) {
	n := newNVIDIANode(t, 4)
	n.update(func(s nvml.State) { s.Driver().Fail("nvmlInit", "DRIVER_NOT_LOADED") })
	n.configureNVIDIA("", 1)
	n.startNVIDIAAgent()
	n.eventually("the driver was asked in vain", func() bool { return n.logged("the driver cannot be asked") })
	if advertised := n.kubelet.State().Resources; len(advertised) > 0 {
		t.Errorf("advertised without a driver: %+v", advertised)
	}
	pid := n.backend("nvidia").PID

	n.update(func(s nvml.State) { s.Driver().Mend("nvmlInit") })
	n.wantCounts(nvidiaGPU, 4, 4)
	n.update(func(s nvml.State) {
		s.Driver().Fail(nvml.All, "UNINITIALIZED").Fail("nvmlInit", "DRIVER_NOT_LOADED")
	})
	n.wantCounts(nvidiaGPU, 4, 0)
	n.update(func(s nvml.State) { s.Driver().Mend(nvml.All).Mend("nvmlInit").Set("driver.generation", 2) })
	n.wantCounts(nvidiaGPU, 4, 4)
	if now := n.backend("nvidia").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// "A MIG change needs a restart of the plugin."
// Verifies that MIG devices that are created and destroyed while everything runs
// come and go, beside whole GPUs, and that a fault of one instance is its own.
func TestNVIDIAMIG(t *testing.T) {
	n := newNVIDIANode(t, 2)
	n.oldDriver(2)
	n.createMIG(1, 0)
	n.createMIG(1, 1)
	n.configureNVIDIA("mig: {strategy: mixed}", 1)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, 1, 1)
	n.wantCounts(nvidiaMIG, 2, 2)
	n.mark(nvidiaGPU)
	n.createMIG(1, 2)
	n.wantCounts(nvidiaMIG, 3, 3)
	n.event("gpu 1 xid 48 gi 2 ci 0")
	n.wantCounts(nvidiaMIG, 3, 2)
	n.wantFault(nvml.MIGUUID(1, 1), "xid-48")
	n.update(func(s nvml.State) { s.GPU(1).MIG(0).Remove() })
	n.wantCounts(nvidiaMIG, 2, 1)
	n.event("gpu 1 xid 79")
	n.wantCounts(nvidiaMIG, 2, 0)
	n.wantNoDip(nvidiaGPU, 1)
}

// Verifies that a GPU whose calls hang for 30 s is told with a reason and stays as
// it was, that everybody else is looked after and served meanwhile, and that it
// comes back without a restart.
func TestNVIDIAHangingGPU(t *testing.T) {
	const hang = 30 * time.Second
	n := startNVIDIA(t, 8, "")
	pid := n.backend("nvidia").PID
	n.mark(nvidiaGPU)
	n.update(func(s nvml.State) { s.GPU(5).Hang(nvml.All, hang) })
	n.wantProblem(nvml.UUID(5), "health of the GPU is unknown", "does not answer")
	began := time.Now()
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", nvidiaGPU, 4); err != nil {
		t.Error(err)
	}
	n.agent.Report()
	if took := time.Since(began); took > hang/3 {
		t.Errorf("an allocation and a report took %v", took)
	}
	n.wantCounts(nvidiaGPU, 8, 8)
	n.update(func(s nvml.State) { s.GPU(1).Fail(nvml.All, "GPU_IS_LOST") })
	n.wantCounts(nvidiaGPU, 8, 7)
	n.wantNoDip(nvidiaGPU, 7)
	n.update(func(s nvml.State) {
		s.GPU(1).Mend(nvml.All)
		s.GPU(5).Mend(nvml.All)
	})
	n.wantCounts(nvidiaGPU, 8, 8)
	n.eventually("the GPU answers again", func() bool { return n.problems() == "" })
	if now := n.backend("nvidia").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}

// "A typo in the config is silently ignored."
// Verifies that mistakes in the settings are refused with the field's path, and
// that what runs is not touched.
func TestNVIDIASettingsAreStrict(t *testing.T) {
	n := startNVIDIA(t, 2, "")
	pid := n.backend("nvidia").PID
	n.mark(nvidiaGPU)
	for settings, parts := range map[string][]string{
		"mig: {strategi: mixed}":                   {"nvidia", "mig.strategi", "unknown field"},
		"mig: {strategy: some}":                    {"nvidia", "mig.strategy", "mixed"},
		"xid: {rows: {fatal: reset}}":              {"nvidia", "xid.rows.fatal", "no XID"},
		`xid: {rows: {"79": reset}, ignore: [79]}`: {"nvidia", "xid.ignore", "XID 79 is in rows too"},
	} {
		n.configureNVIDIA(settings, 1)
		n.wantProblem(parts...)
	}
	n.configureNVIDIA("", 1)
	n.eventually("the good settings are in force", func() bool { return n.problems() == "" })
	n.wantNoDip(nvidiaGPU, 2)
	if now := n.backend("nvidia").PID; now != pid {
		t.Errorf("the backend is process %d, was %d", now, pid)
	}
}
