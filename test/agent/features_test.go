package agent

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/status"
)

// described has two backends whose devices differ.
const described = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, model: "Mock M1", memory: 16Gi, scenarioFile: DIR/scenario.yaml, attributes: {driverVersion: {version: 1.2.3}}}
        recovery: {delay: 0s}
      - name: other
        command: accelmux-backend-mock
        settings: {count: 2, class: fpga, id: "f-{{.Index}}"}
        features: []
    resources:
      - {name: example.com/gpu}
`

// allOf are the features of described.
func allOf() map[string]string {
	return map[string]string{
		"mock.accelmux.io/gpu.count": "4", "mock.accelmux.io/gpu.model": "Mock-M1", "mock.accelmux.io/gpu.memory": "16G",
		"mock.accelmux.io/gpu.driverVersion": "1.2.3", "other.accelmux.io/fpga.count": "2",
	}
}

func quickFeatures(options *agent.Options) {
	options.Timing.Features = features.Timing{Gap: 10 * time.Millisecond}
}

// wantFile waits until the feature file has these features and nothing else.
func (n *node) wantFile(want map[string]string) {
	n.Helper()
	n.eventually("the feature file", func() bool {
		text, err := os.ReadFile(n.path("features.d", "accelmux"))
		got := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
				got[name] = value
			}
		}
		return err == nil && maps.Equal(got, want)
	})
}

// Verifies the feature file of a node with two backends: it follows the devices and
// the profile, not their health, a killed backend or a restart of the agent.
func TestFeatureFile(t *testing.T) {
	inDir := func(options *agent.Options) {
		options.FeaturesDir = options.StateDir + "/../features.d"
		quickFeatures(options)
	}
	n := startNode(t, 6, described, inDir)
	want := allOf()
	n.wantFile(want)

	before, err := os.Stat(n.path("features.d", "accelmux"))
	if err != nil {
		t.Fatal(err)
	}
	n.scenario("devices: {mock-0: {fault: {code: broken}}}")
	n.wantCounts(gpu, 6, 5)
	if err := unix.Kill(n.backend("other").PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend is back", func() bool { b := n.backend("other"); return b.Restarts > 0 && b.State == "running" })
	after, err := os.Stat(n.path("features.d", "accelmux"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written anew: %v", err)
	}

	n.scenario(`devices: {mock-1: {unplugged: true}, mock-2: {attributes: {model: M2}}}`)
	delete(want, "mock.accelmux.io/gpu.model")
	want["mock.accelmux.io/gpu.count"], want["mock.accelmux.io/gpu.model.Mock-M1"], want["mock.accelmux.io/gpu.model.M2"] = "3", "2", "1"
	n.wantFile(want)

	// A new agent, one of whose backends does not come up: what was found before
	// holds.
	n.stopAgent()
	n.wantFile(want)
	n.configure(strings.Replace(described, "command: accelmux-backend-mock", "command: missing", 1))
	options := n.options()
	inDir(&options)
	n.startAgentWith(options)
	n.wantCounts(gpu, 3, 3)
	n.eventually("published", func() bool {
		f := n.agent.Report().Features
		return f != nil && maps.Equal(f.Published, want)
	})
	n.wantFile(want)

	n.scenario("")
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 5", 1))
	n.wantFile(map[string]string{"mock.accelmux.io/gpu.count": "5", "mock.accelmux.io/gpu.model": "Mock-M1"})

	// Shared devices say so, to schedulers and to people.
	n.configure(strings.Replace(strings.Replace(oneBackend, "count: 4", "count: 5", 1), "name: example.com/gpu", "name: example.com/gpu, replicas: 3", 1))
	n.wantFile(map[string]string{"mock.accelmux.io/gpu.count": "5", "mock.accelmux.io/gpu.model": "Mock-M1", "mock.accelmux.io/gpu.replicas": "3"})
	if devices := n.agent.Devices(); len(devices) != 5 || devices[0].Replicas != 3 {
		t.Errorf("devices: %+v, want five that three may share", devices)
	}
}

// Verifies that an upgrade changes nothing: the agent that takes over finds the same
// features, leaves the file alone, and follows the devices from then on.
func TestFeaturesOverTakeOver(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(described)
	inDir := func(options *agent.Options) {
		options.FeaturesDir = n.path("features.d")
		quickFeatures(options)
	}
	first := n.startPeer("first", inDir)
	n.wantFile(allOf())
	before, err := os.Stat(n.path("features.d", "accelmux"))
	if err != nil {
		t.Fatal(err)
	}
	second := n.startPeer("second", inDir)
	second.wantRole(status.RoleStandby)
	first.end()
	second.wantRole(status.RoleActive)
	n.eventually("the new agent has checked the file", func() bool {
		report, err := second.client.Report(t.Context())
		return err == nil && report.Features != nil && maps.Equal(report.Features.Published, allOf())
	})
	after, err := os.Stat(n.path("features.d", "accelmux"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written anew: %v", err)
	}
	n.scenario("devices: {mock-0: {unplugged: true}}")
	want := allOf()
	want["mock.accelmux.io/gpu.count"] = "3"
	n.wantFile(want)
}

// Verifies that the feature file has NVIDIA's labels where the configuration lists their prefix,
// with how many containers share a GPU.
func TestNVIDIALabels(t *testing.T) {
	n := newNVIDIANode(t, 2)
	n.configureNVIDIAWith(strings.Replace(nvidiaConfig, "        heartbeat:", "        vendorLabels: [nvidia.com]\n        heartbeat:", 1), "", 4)
	n.startNVIDIAAgent(quickFeatures, func(options *agent.Options) { options.FeaturesDir = n.path("features.d") })
	want := []string{
		"nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.count=2", "nvidia.com/gpu.replicas=4", "nvidia.com/gpu.sharing-strategy=time-slicing",
		"nvidia.com/gpu.family=hopper", "nvidia.com/mig.capable=true", "nvidia.accelmux.io/gpu.count=2",
	}
	n.eventually("NVIDIA's labels in the feature file", func() bool {
		text, err := os.ReadFile(n.path("features.d", "accelmux"))
		lines := strings.Split(string(text), "\n")
		return err == nil && !slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(lines, line) })
	})
}
