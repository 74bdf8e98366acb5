package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/nvml"
)

const nvidiaGPU = "nvidia.com/gpu"

// nvidiaConfig has the NVIDIA backend as it is on a node, but for what it reads:
// the driver is the double, and its files are below the node's directory.
const nvidiaConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: nvidia
        recovery: {delay: 0s}
        allow: {declared: accept}
        env: {ACCELMUX_NVML_FILE: DIR/nvml.conf}
        settings: {library: LIBRARY, rescan: 1s, edits: {driverRoot: /driver, driverRootMount: DIR/driver}}
    resources:
      - {name: nvidia.com/gpu, class: gpu}
`

// Verifies that eight GPUs become eight units of nvidia.com/gpu, that a container gets its GPU's
// node, the driver's files and the hooks that make them known, and that the backend has a netlink
// socket for uevents, by which the kernel reports drivers that are loaded later.
func TestNVIDIAGPUs(t *testing.T) {
	t.Parallel()
	probe, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		host.Lacks(t, "there is no socket for uevents here: %v", err)
	}
	if err := unix.Close(probe); err != nil {
		t.Fatal(err)
	}
	const gpus = 8
	n := startNVIDIA(t, gpus)
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
	for _, want := range []string{
		`"/dev/nvidia7"`, nvml.UUID(7), "/dev/nvidiactl", "/usr/lib64/libcuda.so." + nvml.DriverVersion, "/usr/bin/nvidia-cdi-hook",
	} {
		if !strings.Contains(string(spec), want) {
			t.Errorf("the CDI spec has no %s", want)
		}
	}

	// In the network namespace of the backend.
	sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", n.backend("nvidia").PID))
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

// startNVIDIA starts a node with GPUs of the double.
func startNVIDIA(t *testing.T, gpus int, edit ...func(*agent.Options)) *node {
	t.Helper()
	n, _, options := newNVIDIA(t, gpus)
	for _, e := range edit {
		e(&options)
	}
	n.startAgentWith(options)
	n.wantCounts(nvidiaGPU, gpus, gpus)
	return n
}

// newNVIDIA makes a node with GPUs of the double, and the options of its agent.
func newNVIDIA(t *testing.T, gpus int) (*node, *nvml.Double, agent.Options) {
	t.Helper()
	n := newNode(t)
	library, err := nvml.Build(t.Context(), n.dir)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := nvml.New(library, n.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nvml.NewHost(n.dir, gpus); err != nil {
		t.Fatal(err)
	}
	if err := driver.Update(func(s nvml.State) {
		for slot := range gpus {
			s.AddGPU(slot)
		}
	}); err != nil {
		t.Fatal(err)
	}
	n.startKubelet()
	n.configure(strings.ReplaceAll(nvidiaConfig, "LIBRARY", driver.Library()))
	options := n.options()
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: n.path("dev"), Sysfs: n.path("sys")}
	return n, driver, options
}

// Verifies that the agent looks before a reset of NVIDIA's by the kernel, which does not look: no GPU is reset while a process that
// NVML does not list has its node open, and it is when that has ended.
func TestNVIDIAResetByPCI(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		host.Lacks(t, "only root can make device nodes")
	}
	n, driver, options := newNVIDIA(t, 2)
	const function = "0000:10:00.0"
	device := n.path("dev", "nvidia0")
	at := n.path("sys/devices/pci0000:00", function)
	proc := n.path("proc")
	if err := errors.Join(
		os.Remove(device), unix.Mknod(device, unix.S_IFCHR|0o600, int(unix.Mkdev(195, 0))), // as NVIDIA's driver has it
		os.MkdirAll(at, 0o755), os.MkdirAll(n.path("sys/bus/pci/devices"), 0o755), os.MkdirAll(n.path("sys/bus/pci/drivers/nvidia"), 0o755),
		os.WriteFile(filepath.Join(at, "vendor"), []byte("0x10de\n"), 0o644), os.WriteFile(filepath.Join(at, "device"), []byte("0x2330\n"), 0o644),
		os.WriteFile(filepath.Join(at, "class"), []byte("0x030200\n"), 0o644), os.WriteFile(filepath.Join(at, "reset"), nil, 0o600),
		os.Symlink(at, n.path("sys/bus/pci/devices", function)), os.Symlink(at, n.path("sys/bus/pci/drivers/nvidia", function)),
		os.MkdirAll(filepath.Join(proc, "self/ns"), 0o755), os.Symlink("pid:[4026531836]", filepath.Join(proc, "self/ns/pid")), os.MkdirAll(filepath.Join(proc, "1"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	monitor := keepOpen(t, device)
	if err := os.Symlink("/proc/"+monitor, filepath.Join(proc, monitor)); err != nil {
		t.Fatal(err)
	}
	n.configure(strings.NewReplacer("LIBRARY", driver.Library(), "rescan: 1s", "rescan: 1s, reset: {method: pci}").Replace(nvidiaConfig))
	options.Timing.ResetBackoff = 100 * time.Millisecond
	n.startAgentWith(options)
	n.wantCounts(nvidiaGPU, 2, 2)
	if err := driver.Update(func(s nvml.State) { s.GPU(0).Set("recovery-action", 1) }); err != nil {
		t.Fatal(err)
	}
	written := func() string {
		text, err := os.ReadFile(filepath.Join(at, "reset"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	n.wantProblem(nvml.UUID(0), "no reset while processes have /dev/nvidia0 open: python3 ("+monitor+")")
	if got := written(); got != "" {
		t.Errorf("the GPU was reset: %q", got)
	}
	if err := os.Remove(filepath.Join(proc, monitor)); err != nil { // it has ended
		t.Fatal(err)
	}
	n.eventually("the GPU is reset", func() bool { return written() == "1" })
	if err := driver.Update(func(s nvml.State) { s.GPU(0).Set("recovery-action", 0) }); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(nvidiaGPU, 2, 2)
}
