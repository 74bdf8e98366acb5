package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/nvml"
)

// Verifies that eight GPUs become eight units of nvidia.com/gpu, and that a
// container gets its GPU's node, the driver's files and the hooks that make them
// known.
func TestNVIDIAGPUs(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// Verifies that the backend has a netlink socket for uevents, by which the kernel reports
// drivers that are loaded later.
func TestNVIDIAListensToTheKernel(t *testing.T) {
	t.Parallel()
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
