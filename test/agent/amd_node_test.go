package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/amdtree"
)

const (
	amdGPU = "amd.com/gpu"
	amdCPX = "amd.com/cpx_nps4"
	amdSPX = "amd.com/spx_nps1"

	// single and mixed are the strategies of AMD's own plugin.
	single, mixed = "single", "mixed"
)

// amdConfig has the AMD backend as it is on a node, but for how often it looks.
// STRATEGY, SETTINGS and RESOURCES are the test's. Nothing is reset: an attempt takes all of
// a hive out of service for a moment.
const amdConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: amd
        heartbeat: 1s
        recovery: {delay: 0s, reset: never}
        telemetry: {interval: 1s}
        settings: {partitions: {strategy: STRATEGY}, poll: 100ms, rescan: 1sSETTINGS}
    resources: [RESOURCES]
`

// amdResources are those of each strategy: with mixed each partition style has a
// resource, also SPX, and GPUs without styles are amd.com/gpu.
var amdResources = map[string]string{
	single: "{name: amd.com/gpu, class: gpu}",
	mixed:  `{name: "amd.com/{computePartition}_{memoryPartition}"}, {name: amd.com/gpu}`,
}

// quickCounters has the counters read every second; a test may need them not to be.
const quickCounters = "health: {interval: 1s}"

// amdNode is a node whose sysfs and devfs are those of a machine with AMD GPUs.
type amdNode struct {
	*node
	tree    *amdtree.Tree
	machine amdtree.Machine
	// unwritten are units that kubelet heard of before their CDI definition was there.
	unwritten []string
}

// newAMDNode is a node with the machine; only kubelet runs.
func newAMDNode(t *testing.T, m amdtree.Machine) *amdNode {
	t.Helper()
	tree := amdtree.New(t, m)
	n := &amdNode{node: newNode(t), tree: tree, machine: tree.Machine()}
	n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: func(e kubelettest.Event) {
		n.observe(e)
		n.compare(e)
	}})
	n.startKubelet()
	return n
}

// startAMD is a node with everything running and all units of the resource healthy.
func startAMD(t *testing.T, m amdtree.Machine, strategy, settings, resource string, units int) *amdNode {
	t.Helper()
	n := newAMDNode(t, m)
	n.configureAMD(strategy, settings)
	n.startAMDAgent()
	n.wantCounts(resource, units, units)
	return n
}

// configureAMD writes the configuration with more settings, such as quickCounters.
func (n *amdNode) configureAMD(strategy, settings string) {
	n.Helper()
	if settings != "" {
		settings = ", " + settings
	}
	n.configure(strings.NewReplacer("STRATEGY", strategy, "SETTINGS", settings, "RESOURCES", amdResources[strategy]).Replace(amdConfig))
}

// startAMDAgent has the agent believe kubelet's list of pods at once, and serve
// metrics.
func (n *amdNode) startAMDAgent() {
	n.Helper()
	options := n.options()
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: n.tree.Devfs(), Sysfs: n.tree.Sysfs()}
	quickUsage(&options)
	withMetrics(&options)
	n.startAgentWith(options)
}

// id is that of a GPU.
func (n *amdNode) id(gpu int) string {
	return fmt.Sprintf("amdgpu-%016x", n.machine.GPUs[gpu].UniqueID)
}

// change makes a change of the tree.
func (n *amdNode) change(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// raise adds to an error counter of a GPU.
func (n *amdNode) raise(gpu int, counter string) {
	n.Helper()
	n.change(n.tree.RaiseCounter(gpu, counter, 1))
}

// definitions are those of the CDI specs as they are now: what a container gets, by
// the device's name.
func (n *amdNode) definitions() map[string]string {
	return n.node.definitions("amd", "gpu", "partition")
}

// compare sees whether there is a definition for each unit that kubelet hears of, at
// that moment.
func (n *amdNode) compare(e kubelettest.Event) {
	if e.Type != kubelettest.EventDevices {
		return
	}
	definitions := n.definitions()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.kubelet.Devices(e.Resource) {
		if d.Healthy && definitions[d.ID] == "" {
			n.unwritten = append(n.unwritten, e.Resource+" "+d.ID)
		}
	}
}

// wantWritten fails if a device was advertised before its definition was written.
func (n *amdNode) wantWritten() {
	n.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unwritten) > 0 {
		n.Errorf("advertised before the CDI spec had a definition: %v", n.unwritten)
	}
}
