package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/nvml"
)

const (
	nvidiaGPU = "nvidia.com/gpu"
	nvidiaMIG = "nvidia.com/mig-1g.10gb"
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
        heartbeat: 300ms
        recovery: {delay: 0s}
        env: {ACCELMUX_NVML_FILE: DIR/nvml.conf, ACCELMUX_NVML_CALLS: DIR/nvml.calls}
        settings: {library: LIBRARY, rescan: 1s, edits: {driverRoot: DIR/driver}SETTINGS}
    resources:
      - {name: nvidia.com/gpu, class: gpu, replicas: REPLICAS}
      - {name: "nvidia.com/mig-{profile}", class: mig}
`

// nvmlLibrary is the double of the driver's library, built once for all tests.
var nvmlLibrary struct {
	sync.Once
	path string
	err  error
}

// nvidiaNode is a node with NVIDIA's driver: what its library says is the test's.
type nvidiaNode struct {
	*node
	driver *nvml.Double
	host   nvml.Host
}

// newNVIDIANode is a node with so many GPUs; only kubelet runs.
func newNVIDIANode(t *testing.T, gpus int) *nvidiaNode {
	t.Helper()
	dir, library := built.Dir(t), &nvmlLibrary
	library.Do(func() { library.path, library.err = nvml.Build(context.Background(), dir) })
	if library.err != nil {
		t.Fatal(library.err)
	}
	n := &nvidiaNode{node: newNode(t)}
	var err error
	if n.driver, err = nvml.New(library.path, n.dir); err != nil {
		t.Fatal(err)
	}
	if n.host, err = nvml.NewHost(n.dir, gpus); err != nil {
		t.Fatal(err)
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
	n.configureNVIDIAWith(nvidiaConfig, settings, replicas)
}

// configureNVIDIAWith is configureNVIDIA with another text than nvidiaConfig.
func (n *nvidiaNode) configureNVIDIAWith(text, settings string, replicas int) {
	n.Helper()
	n.configure(strings.NewReplacer("LIBRARY", n.driver.Library(), "SETTINGS", settings, "REPLICAS", fmt.Sprint(replicas)).
		Replace(text))
}

func (n *nvidiaNode) startNVIDIAAgent(with ...func(*agent.Options)) {
	n.Helper()
	options := n.options()
	for _, change := range with {
		change(&options)
	}
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

// event lets the driver tell something once the backend listens, until it has heard it: who
// stops listening at that moment, as before a reset, does not.
func (n *nvidiaNode) event(text string) {
	n.Helper()
	ctx := n.soon()
	for heard := false; !heard; {
		before := 0
		err := n.driver.Await(ctx, func(calls []nvml.Call) bool { before = len(calls); return listens(calls) })
		if err == nil {
			_, err = n.driver.Event(text)
		}
		if err == nil {
			err = n.driver.Await(ctx, func(calls []nvml.Call) bool {
				heard = slices.ContainsFunc(calls[before:], func(c nvml.Call) bool { return c.Function == waitsForEvents && c.Outcome == "SUCCESS" })
				return heard || slices.ContainsFunc(calls[before:], stopsListening)
			})
		}
		if err != nil {
			n.Fatal(err)
		}
	}
}

// waitsForEvents is the driver's function that tells of events.
const waitsForEvents = "nvmlEventSetWait_v2"

// listens reports whether the process that came last waits for events.
func listens(calls []nvml.Call) bool {
	for _, call := range slices.Backward(calls) {
		switch {
		case stopsListening(call):
			return false
		case call.Function == waitsForEvents && call.Outcome == nvml.Waits:
			return true
		}
	}
	return false
}

// stopsListening reports whether nobody listens after the call.
func stopsListening(call nvml.Call) bool {
	return slices.Contains([]string{"nvmlInit_v2", "nvmlShutdown", "nvmlEventSetFree"}, call.Function)
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
	if err := n.host.AddMIG(slot, index); err != nil {
		n.Fatal(err)
	}
	n.update(func(s nvml.State) { s.AddMIG(slot, index, 1, 10<<10) })
}
