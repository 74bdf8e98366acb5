package agent

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/profile"
)

// byLabel has two vendors behind one resource, each on the nodes of its label, a
// third profile that collides with the first two, and one for all other nodes.
const byLabel = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: red
    nodeSelector: {matchLabels: {vendor: red}}
    backends:
      - name: red
        command: accelmux-backend-mock
        settings: {count: 4, id: "red-{{.Index}}"}
    resources:
      - {name: example.com/gpu}
      - {name: example.com/red-only}
  - name: blue
    nodeSelector: {matchLabels: {vendor: blue}}
    backends:
      - name: blue
        command: accelmux-backend-mock
        settings: {count: 6, id: "blue-{{.Index}}", scenarioFile: DIR/scenario.yaml}
        recovery: {delay: 0s}
    resources:
      - {name: example.com/gpu}
  - name: both
    nodeSelector:
      matchExpressions: [{key: collide, operator: Exists}]
    backends: [{name: mock}]
  - name: broken
    nodeSelector: {matchLabels: {vendor: missing}}
    backends: [{name: missing}]
    resources:
      - {name: example.com/gpu}
  - name: default
    backends:
      - name: plain
        command: accelmux-backend-mock
        settings: {count: 2, id: "plain-{{.Index}}"}
    resources:
      - {name: example.com/gpu}
`

func vendor(name string) map[string]string { return map[string]string{"vendor": name} }

// inCluster are the options of an agent that has an API server.
func (n *node) inCluster(server *clustertest.Server) agent.Options {
	n.Helper()
	options := n.options()
	options.Cluster = server.Client(n)
	options.Timing.Selection = profile.Timing{
		Start: time.Millisecond, Spread: time.Millisecond, Backoff: 10 * time.Millisecond, BackoffLimit: 100 * time.Millisecond,
	}
	options.Timing.Events = events.Timing{Spread: time.Millisecond, Backoff: time.Millisecond}
	return options
}

// wantProfile waits until status says that the profile is in force for that reason.
func (n *node) wantProfile(name, reason string) {
	n.Helper()
	n.eventually("profile "+name+" because "+reason, func() bool {
		c := n.agent.Report().Config
		return c.Profile == name && strings.Contains(c.Reason, reason)
	})
}

// wantEvent waits for an Event on the Node.
func (n *node) wantEvent(server *clustertest.Server, reason events.Reason, part string) {
	n.Helper()
	n.eventually("an Event "+string(reason)+" with "+part, func() bool {
		for _, e := range server.Events() {
			if e.Reason == string(reason) && strings.Contains(e.Message, part) {
				return true
			}
		}
		return false
	})
}

// Verifies that the node's label chooses the profile, and that a change of it
// switches backends, there and back, without a dip of the resource that both
// profiles have, without a registration, and with an empty list for the one that
// goes away.
func TestLabelSwitchesProfile(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("red"))
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 4, 4)
	n.wantProfile("red", "its nodeSelector matches the node's labels")
	n.wantEvent(server, events.ProfileApplied, "profile red is applied: its nodeSelector matches")
	registered := n.kubelet.State().Counts.Registered
	for range 3 {
		n.mark(gpu)
		server.SetLabels(vendor("blue"))
		n.wantCounts(gpu, 6, 6)
		n.wantNoDip(gpu, 4)
		n.wantProfile("blue", "its nodeSelector")
		n.mark(gpu)
		server.SetLabels(vendor("red"))
		n.wantCounts(gpu, 4, 4)
		n.wantNoDip(gpu, 4)
	}
	if now := n.kubelet.State().Counts.Registered; now != registered {
		t.Errorf("%d registrations, want the first %d only", now, registered)
	}
	server.SetLabels(map[string]string{"other": "label"})
	n.wantCounts(gpu, 2, 2)
	n.wantProfile("default", "no profile's nodeSelector matches")
	n.eventually("the old backends have ended", func() bool { return len(n.agent.Report().Backends) == 1 })
}

// Verifies that labels from which no profile follows, or one whose backend does not
// run, keep what runs; that status and an Event say why; and that the next good
// label is taken.
func TestBadLabelKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("red"))
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 4, 4)
	n.mark(gpu)
	server.SetLabels(map[string]string{"vendor": "red", "collide": ""})
	const ambiguous = "the nodeSelectors of the profiles red and both match the node's labels with the same priority 0"
	n.wantProblem("profile red stays in force", ambiguous)
	n.wantEvent(server, events.ProfileRefused, ambiguous)

	server.SetLabels(vendor("missing"))
	n.wantProblem("would stop backend red, but backend missing does not run")
	n.wantEvent(server, events.BackendFailed, "backend missing failed")

	// The rights are taken away, and come back.
	server.Forbid(true)
	server.Cut()
	n.wantProblem("the API server forbids it", "the labels last seen still count")
	server.Forbid(false)

	server.SetLabels(vendor("red"))
	n.eventually("no problem is left", func() bool { return n.problems() == "" })

	// A file that is refused stays refused whatever the labels.
	n.configure(strings.Replace(byLabel, "nodeSelector", "nodeSelektor", 1))
	n.wantProblem("nodeSelektor")
	n.wantEvent(server, events.ConfigurationRefused, "nodeSelektor")
	n.wantNoDip(gpu, 4)
	server.SetLabels(vendor("blue"))
	n.wantCounts(gpu, 6, 6)
	n.wantProblem("nodeSelektor")
	n.mark(gpu)

	// A good file chooses again by the labels that are known.
	n.configure(strings.Replace(byLabel, "vendor: red", "vendor: blue", 1) + "    # two of the same rank\n")
	n.wantProblem("profile blue stays in force", "red and blue")
	n.configure(strings.NewReplacer("vendor: red}}", "vendor: blue}}\n    priority: 5").Replace(byLabel))
	n.wantProfile("red", "2 profiles match, and it has the highest priority, 5")
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// Verifies that an API server that is away changes nothing, also over a restart of
// the agent, and that a change made meanwhile is taken on when it is back.
func TestServerAwayChangesNothing(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("blue"))
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 6, 6)
	n.mark(gpu)
	server.Away(true)
	n.wantProblem("the labels of Node node-1 can't be watched")
	n.scenario("devices: {blue-1: {fault: {code: ecc, recovery: self}}}")
	n.wantCounts(gpu, 6, 5) // nothing waits for the API server
	n.scenario("")
	n.wantCounts(gpu, 6, 6)
	n.stopAgent()
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 6, 6)
	n.wantProfile("blue", "its nodeSelector")
	n.mark(gpu)
	server.SetLabels(vendor("red"))
	server.Away(false)
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
	n.eventually("no problem is left", func() bool { return n.problems() == "" })
}

// Verifies that what ran is kept over a restart even if no profile can be chosen
// any more.
func TestRestartWithoutChoice(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("red"))
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 4, 4)
	server.SetLabels(map[string]string{"vendor": "red", "collide": ""})
	n.wantProblem("red and both")
	n.stopAgent()
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 4, 4)
	n.wantProfile("red", "it ran before the agent was restarted")
	n.wantProblem("red and both")
}

// Verifies the first start without an API server: where labels matter the agent
// waits and says so; where they don't it does not wait.
func TestFirstStartWithoutServer(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("blue"))
	server.Away(true)
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	n.startAgentWith(n.inCluster(server))
	n.wantProblem("nothing runs until one can", "the node's labels are not known yet")
	if report := n.agent.Report(); report.Config.Profile != "" || len(report.Backends) != 0 {
		t.Errorf("without labels profile %q and %d backends run", report.Config.Profile, len(report.Backends))
	}
	n.configure(oneBackend)
	n.wantCounts(gpu, 4, 4)
	n.wantProfile("default", "no profile has a nodeSelector")
	n.mark(gpu)
	n.configure(byLabel)
	n.wantProblem("profile default stays in force", "not known yet")
	server.Away(false)
	n.wantCounts(gpu, 6, 6)
	n.wantNoDip(gpu, 4)
}

// Verifies that a profile named on the command line wins over the labels, and that
// nothing is watched then; Events are still written.
func TestNamedProfileWatchesNothing(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("blue"))
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	options := n.inCluster(server)
	options.Profile = "red"
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	n.wantProfile("red", "named on the command line")
	n.wantEvent(server, events.ProfileApplied, "profile red")
	if got := server.Requests("watch"); got != 0 {
		t.Errorf("%d watches, want none", got)
	}
	n.stopAgent()
	n.wantNothingLeft()
}

// Verifies that a device's failure and recovery, and a backend's crash, are Events
// on the Node.
func TestEventsOnTheNode(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", map[string]string{})
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 4, 4)
	n.scenario("devices: {mock-1: {fault: {code: ecc, recovery: self}}}")
	n.wantEvent(server, events.DeviceUnhealthy, "device mock-1 of backend mock is unhealthy: ecc")
	n.scenario("")
	n.wantEvent(server, events.DeviceRecovered, "device mock-1 of backend mock is healthy again")
	if err := unix.Kill(n.backend("mock").PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.wantEvent(server, events.BackendFailed, "backend mock failed")
}

// Verifies that a restart of the agent is no Event, and a profile that was chosen
// after it is one.
func TestRestartIsNoEvent(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("red"))
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	n.startAgentWith(n.inCluster(server))
	n.wantEvent(server, events.ProfileApplied, "profile red is applied")
	n.stopAgent()
	n.startAgentWith(n.inCluster(server))
	n.wantCounts(gpu, 4, 4)
	server.SetLabels(vendor("blue"))
	n.wantEvent(server, events.ProfileApplied, "profile blue is applied")
	count := 0
	for _, e := range server.Events() {
		if strings.Contains(e.Message, "profile red is applied") {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d Events say that profile red is applied, want that of the first start only", count)
	}
}
