package agent

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/features"
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

// Verifies the feature file of a node with two backends: it follows the devices and the profile, and
// outlives a restart of the agent.
func TestFeatureFile(t *testing.T) {
	t.Parallel()
	inDir := func(options *agent.Options) {
		options.FeaturesDir = options.StateDir + "/../features.d"
		options.Timing.Features = features.Timing{Gap: 10 * time.Millisecond}
	}
	n := startNode(t, 6, described, inDir)
	want := map[string]string{
		"mock.accelmux.io/gpu.count": "4", "mock.accelmux.io/gpu.model": "Mock-M1", "mock.accelmux.io/gpu.memory": "16G",
		"mock.accelmux.io/gpu.driverVersion": "1.2.3", "other.accelmux.io/fpga.count": "2",
	}
	n.wantFile(want)
	n.scenario(`devices: {mock-1: {unplugged: true}, mock-2: {attributes: {model: M2}}}`)
	delete(want, "mock.accelmux.io/gpu.model")
	want["mock.accelmux.io/gpu.count"], want["mock.accelmux.io/gpu.model.Mock-M1"], want["mock.accelmux.io/gpu.model.M2"] = "3", "2", "1"
	n.wantFile(want)

	// A new agent, one of whose backends does not come up: its devices are held over, and
	// what was found before holds.
	n.stopAgent()
	n.configure(strings.Replace(described, "command: accelmux-backend-mock", "command: missing", 1))
	options := n.options()
	inDir(&options)
	n.startAgentWith(options)
	n.wantCounts(gpu, 5, 5)
	n.eventually("published", func() bool {
		f := n.agent.Report().Features
		return f != nil && maps.Equal(f.Published, want)
	})
	n.wantFile(want)

	// Shared devices say so, to schedulers and to people.
	n.scenario("")
	n.configure(strings.NewReplacer("count: 4", "count: 5", "name: example.com/gpu", "name: example.com/gpu, replicas: 3").Replace(oneBackend))
	n.wantFile(map[string]string{"mock.accelmux.io/gpu.count": "5", "mock.accelmux.io/gpu.model": "Mock-M1", "mock.accelmux.io/gpu.replicas": "3"})
	if devices := n.agent.Devices(); len(devices) != 5 || devices[0].Replicas != 3 {
		t.Errorf("devices: %+v, want five that three may share", devices)
	}
}
