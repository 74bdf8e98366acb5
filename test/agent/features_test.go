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
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
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
	options.Timing.Features = features.Timing{Spread: 1, Gap: 10 * time.Millisecond, Backoff: 10 * time.Millisecond, BackoffLimit: 100 * time.Millisecond}
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

// Verifies the labels of the agent's own Node: they follow the devices, beside those
// of others; nothing is asked of the API server when nothing changes; what somebody
// removed comes back, also where a profile is named; and rights that are missing
// are told.
func TestNodeLabels(t *testing.T) {
	server := clustertest.New(t, "node-1", map[string]string{"kubernetes.io/os": "linux"})
	n := newNode(t)
	n.startKubelet()
	n.configure(described)
	options := n.inCluster(server)
	options.NodeLabels, options.Profile = true, "default"
	quickFeatures(&options)
	n.startAgentWith(options)
	want := allOf()
	want["kubernetes.io/os"] = "linux"
	labelled := func() bool { return maps.Equal(server.Labels(), want) }
	n.eventually("labels", labelled)
	n.eventually("the whole is found to be published", func() bool { return len(n.agent.Report().Features.Published) == len(want)-1 })

	gets, applies := server.Requests("get"), server.Requests("apply")
	n.scenario("devices: {mock-0: {fault: {code: broken}}}")
	n.wantCounts(gpu, 6, 5)
	server.AddLabels(map[string]string{"somebody": "else"})
	want["somebody"] = "else"
	n.scenario("")
	n.wantCounts(gpu, 6, 6)
	// One look may still follow when the watch brings old news of our own write late.
	if g, a := server.Requests("get"), server.Requests("apply"); g > gets+1 || a != applies {
		t.Errorf("%d more looks and %d more writes though no feature changed", g-gets, a-applies)
	}

	server.AddLabels(map[string]string{"mock.accelmux.io/gpu.count": ""})
	n.eventually("the label that was removed", labelled)

	n.scenario("devices: {mock-3: {unplugged: true}}")
	want["mock.accelmux.io/gpu.count"] = "3"
	n.eventually("a label that changes", labelled)

	server.Forbid(true)
	n.scenario("")
	n.wantProblem("cannot be published as labels of Node node-1", "needs the verbs get and patch on nodes")
	server.Forbid(false)
	want["mock.accelmux.io/gpu.count"] = "4"
	n.eventually("labels after the rights are back", labelled)
	n.eventually("no problem is left", func() bool { return n.problems() == "" })
}

// Verifies that what cannot be published is refused at the start.
func TestFeaturesRefused(t *testing.T) {
	n := newNode(t)
	n.configure(oneBackend)
	for want, edit := range map[string]func(*agent.Options){
		"need the API server": func(o *agent.Options) { o.NodeLabels = true },
		"not both": func(o *agent.Options) {
			o.NodeLabels, o.FeaturesDir = true, n.path("features.d")
			o.Cluster = clustertest.New(t, "node-1", nil).Client(t)
		},
	} {
		options := n.options()
		edit(&options)
		if _, err := agent.Open(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
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
	n.startTurn("first", inDir)
	n.wantFile(allOf())
	before, err := os.Stat(n.path("features.d", "accelmux"))
	if err != nil {
		t.Fatal(err)
	}
	second := n.startTurn("second", inDir)
	second.wantRole(status.RoleActive)
	n.eventually("the new agent has looked at the file", func() bool {
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
