package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
	for _, e := range edit {
		e(&options)
	}
	n.startAgentWith(options)
	n.wantCounts(nvidiaGPU, gpus, gpus)
	return n
}
