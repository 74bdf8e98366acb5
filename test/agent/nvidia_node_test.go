package agent

import (
	"context"
	"fmt"
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
