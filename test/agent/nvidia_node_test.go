package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/nvml"
)

const (
	nvidiaGPU = "nvidia.com/gpu"
	nvidiaMIG = "nvidia.com/mig-1g.10gb"
	// nvidiaDriver is the version that the double's driver has.
	nvidiaDriver = "580.65.06"
)

// nvidiaConfig has the NVIDIA backend as it is on a node, but for what it reads:
// the driver is the double, and its files are below the node's directory. SETTINGS
// and REPLICAS are the test's.
const nvidiaConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: nvidia
        heartbeat: 100ms
        recovery: {delay: 0s}
        env: {ACCELMUX_NVML_FILE: DIR/nvml.conf, ACCELMUX_NVML_CALLS: DIR/nvml.calls}
        allow:
          devices: [/dev/nvidia*, /dev/nvidia-caps/*]
          mounts: [DIR/driver/**]
          hooks: [/usr/bin/nvidia-cdi-hook]
        settings: {library: LIBRARY, rescan: 1s, edits: {driverRoot: DIR/driver}SETTINGS}
    resources:
      - {name: nvidia.com/gpu, class: gpu, replicas: REPLICAS}
      - {name: nvidia.com/mig-1g.10gb, class: mig, selector: 'device.attributes["nvidia"].profile == "1g.10gb"'}
`

// nvmlLibrary builds the double of the driver's library once for all tests.
var nvmlLibrary = sync.OnceValues(func() (string, error) {
	return nvml.Build(context.Background(), programs)
})

// nvidiaNode is a node with NVIDIA's driver: what its library says is the test's.
type nvidiaNode struct {
	*node
	driver *nvml.Double
}

// newNVIDIANode is a node with so many GPUs; only kubelet runs.
func newNVIDIANode(t *testing.T, gpus int) *nvidiaNode {
	t.Helper()
	library, err := nvmlLibrary()
	if err != nil {
		t.Fatal(err)
	}
	n := &nvidiaNode{node: newNode(t)}
	if n.driver, err = nvml.New(library, n.dir); err != nil {
		t.Fatal(err)
	}
	n.file("", "driver/usr/lib64/libcuda.so."+nvidiaDriver, "driver/usr/lib64/libnvidia-ml.so."+nvidiaDriver)
	n.deviceNode("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
	for slot := range gpus {
		n.deviceNode(fmt.Sprintf("nvidia%d", slot))
	}
	n.update(func(s nvml.State) {
		for slot := range gpus {
			s.AddGPU(slot)
		}
	})
	n.startKubelet()
	return n
}

// startNVIDIA is a node with everything running and all GPUs healthy.
func startNVIDIA(t *testing.T, gpus int, settings string) *nvidiaNode {
	t.Helper()
	n := newNVIDIANode(t, gpus)
	n.configureNVIDIA(settings, 1)
	n.startNVIDIAAgent()
	n.wantCounts(nvidiaGPU, gpus, gpus)
	return n
}

// configureNVIDIA writes the configuration with more settings, such as
// "mig: {strategy: mixed}".
func (n *nvidiaNode) configureNVIDIA(settings string, replicas int) {
	n.Helper()
	if settings != "" {
		settings = ", " + settings
	}
	n.configure(strings.NewReplacer("LIBRARY", n.driver.Library(), "SETTINGS", settings, "REPLICAS", fmt.Sprint(replicas)).
		Replace(nvidiaConfig))
}

func (n *nvidiaNode) startNVIDIAAgent() {
	n.Helper()
	options := n.options()
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: n.path("dev"), Sysfs: n.path("sys")}
	n.startAgentWith(options)
}

// update changes what the driver says.
func (n *nvidiaNode) update(change func(nvml.State)) {
	n.Helper()
	if err := n.driver.Update(change); err != nil {
		n.Fatal(err)
	}
}

// event lets the driver tell something, once the backend listens.
func (n *nvidiaNode) event(text string) {
	n.Helper()
	if err := n.driver.Await(n.soon(), listens); err != nil {
		n.Fatal(err)
	}
	if _, err := n.driver.Event(text); err != nil {
		n.Fatal(err)
	}
}

// listens reports whether the process that came last waits for events.
func listens(calls []nvml.Call) bool {
	for _, call := range slices.Backward(calls) {
		switch {
		case call.Function == "nvmlInit_v2":
			return false
		case call.Function == "nvmlEventSetWait_v2" && call.Outcome == nvml.Waits:
			return true
		}
	}
	return false
}

// oldDriver takes the recovery action from the GPUs, which drivers before R555 do
// not have: what an XID means is then in the backend's table.
func (n *nvidiaNode) oldDriver(gpus int) {
	n.Helper()
	n.update(func(s nvml.State) {
		for slot := range gpus {
			s.GPU(slot).Delete("recovery-action")
		}
	})
}

// createMIG makes a MIG device of one slice, with the files that the kernel module
// has for it.
func (n *nvidiaNode) createMIG(slot, index int) {
	n.Helper()
	minor := 10*slot + 2*index
	dir := fmt.Sprintf("proc/driver/nvidia/capabilities/gpu%d/mig/gi%d", slot, index+1)
	n.file(fmt.Sprintf("DeviceFileMinor: %d\n", minor), dir+"/access")
	n.file(fmt.Sprintf("DeviceFileMinor: %d\n", minor+1), dir+"/ci0/access")
	n.deviceNode(fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor), fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor+1))
	n.update(func(s nvml.State) { s.AddMIG(slot, index, 1, 10<<10) })
}

func (n *nvidiaNode) file(text string, names ...string) {
	n.Helper()
	for _, name := range names {
		path := n.path(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			n.Fatal(err)
		}
	}
}

// deviceNode makes device nodes in the node's /dev. Nobody opens them.
func (n *nvidiaNode) deviceNode(names ...string) {
	n.Helper()
	for _, name := range names {
		path := n.path("dev", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			n.Fatal(err)
		}
		err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(195, 0)))
		if errors.Is(err, unix.EPERM) {
			// The one that everybody may make, since Linux 5.8.
			err = unix.Mknod(path, unix.S_IFCHR|0o600, 0)
		}
		if err != nil {
			n.Fatalf("make the device node %s: %v", path, err)
		}
	}
}
