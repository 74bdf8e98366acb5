package agent

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	t.Parallel()
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
