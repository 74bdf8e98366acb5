package agent

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

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
        settings:
          devices:
            - {count: 4, id: "red-{{.GroupIndex}}"}
            - {count: 1, id: red-npu, class: npu}
    resources:
      - {name: example.com/gpu, class: gpu}
      - {name: example.com/red-only, class: npu}
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

// startCluster is a node with an API server on which a configuration, byLabel if it is "", runs with
// the labels; gpu has so many units then. It serves metrics.
func startCluster(t *testing.T, config string, units int, labels map[string]string, edit ...func(*agent.Options)) (*node, *clustertest.Server, agent.Options) {
	t.Helper()
	server := clustertest.New(t, "node-1", labels)
	n := newNode(t)
	n.startKubelet()
	n.configure(cmp.Or(config, byLabel))
	options := n.inCluster(server)
	withMetrics(&options)
	for _, e := range edit {
		e(&options)
	}
	n.startAgentWith(options)
	n.wantCounts(gpu, units, units)
	return n, server, options
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
		return slices.ContainsFunc(server.Events(), func(e corev1.Event) bool {
			return e.Reason == string(reason) && strings.Contains(e.Message, part)
		})
	})
}

// wantApplied waits until Events said that often that profile red is applied.
func (n *node) wantApplied(server *clustertest.Server, times int) {
	n.Helper()
	n.eventually("Events that profile red is applied", func() bool { return server.Count(string(events.ProfileApplied)) == times })
}

// Rule 8: the node's label chooses the profile, and a change of it switches backends, there and
// back, without a dip of the resource that both profiles have, without a registration, and with an
// empty list for the one that goes away.
func TestLabelSwitchesProfile(t *testing.T) {
	t.Parallel()
	n, server, _ := startCluster(t, "", 4, vendor("red"))
	n.wantCounts("example.com/red-only", 1, 1)
	n.wantProfile("red", "its nodeSelector matches the node's labels")
	n.wantEvent(server, events.ProfileApplied, "profile red is applied: its nodeSelector matches")
	registered := n.kubelet.State().Counts.Registered
	for range 3 {
		n.mark(gpu)
		server.SetLabels(vendor("blue"))
		n.wantCounts(gpu, 6, 6)
		n.wantNoDip(gpu, 4)
		n.wantCounts("example.com/red-only", 0, 0)
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

// Rules 8 and 10: a profile which is unknown or broken, whatever is wrong with it, keeps what runs,
// without a dip and with the same backend process; status, an Event and a metric say so; and each
// says that it is over.
func TestUnknownOrBrokenProfile(t *testing.T) {
	t.Parallel()
	selective, _, _ := strings.Cut(byLabel, "  - name: default")
	for name, c := range map[string]struct {
		spoil  func(*node, *clustertest.Server)
		status string
		reason events.Reason
		event  string
		metric string
	}{
		"no profile has the label": {
			func(_ *node, s *clustertest.Server) { s.SetLabels(vendor("green")) },
			"profile red stays in force: no profile's nodeSelector matches", events.ProfileRefused,
			"what runs stays: no profile's nodeSelector matches the node's labels, and every profile has a nodeSelector",
			"accelmux_profile_unchosen",
		},
		"two of equal rank": {
			func(_ *node, s *clustertest.Server) {
				s.SetLabels(map[string]string{"vendor": "red", "collide": ""})
			},
			"profile red stays in force: the nodeSelectors of the profiles red and both", events.ProfileRefused,
			"with the same priority 0; give one a higher priority", "accelmux_profile_unchosen",
		},
		"its backend is not there": {
			func(_ *node, s *clustertest.Server) { s.SetLabels(vendor("missing")) },
			"would stop backend red, but backend missing does not run", events.ProfileSwitchBlocked,
			"profile red stays in force: the switch to the new configuration would stop backend red, but backend missing does not run",
			"accelmux_profile_switch_waiting",
		},
		"the configuration is broken": {
			func(n *node, _ *clustertest.Server) { n.configure("apiVersion: [") },
			"the last good one stays in force", events.ConfigurationRefused, "this is not YAML", "accelmux_config_refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, server, _ := startCluster(t, selective, 4, vendor("red"))
			n.wantApplied(server, 1)
			pid := n.backend("red").PID
			n.mark(gpu)

			c.spoil(n, server)
			n.wantProblem(c.status)
			n.wantEvent(server, c.reason, c.event)
			n.wantMetrics(c.metric+" 1", `accelmux_profile_info{profile="red"} 1`, "accelmux_ready 1")

			n.configure(selective)
			server.SetLabels(vendor("red"))
			n.wantMetrics(c.metric+" 0", "accelmux_problems 0")
			n.wantApplied(server, 2)
			n.wantNoDip(gpu, 4)
			if now := n.backend("red").PID; now != pid {
				t.Errorf("the backend's process is %d, want still %d", now, pid)
			}
			if got := server.Count(string(c.reason)); got != 1 {
				t.Errorf("%d Events %s, want one", got, c.reason)
			}
		})
	}
}

// Verifies that an API server that is away, or refuses to be watched, changes nothing, also over a
// restart of the agent, and that a change made meanwhile is taken on when it is back.
func TestServerAwayChangesNothing(t *testing.T) {
	t.Parallel()
	n, server, options := startCluster(t, "", 6, vendor("blue"))
	n.mark(gpu)
	server.Forbid(true)
	server.Cut() // a watch that runs is not refused
	n.wantProblem("the API server forbids it", "its labels and cordoned devices count as last seen")
	server.Forbid(false)
	server.Away(true)
	n.wantProblem("Node node-1 can't be watched")
	n.scenario("devices: {blue-1: {fault: {code: ecc, recovery: self}}}")
	n.wantCounts(gpu, 6, 5) // nothing waits for the API server
	n.scenario("")
	n.wantCounts(gpu, 6, 6)
	n.stopAgent()
	n.startAgentWith(options)
	n.wantCounts(gpu, 6, 6)
	n.wantProfile("blue", "its nodeSelector")
	n.mark(gpu)
	server.SetLabels(vendor("red"))
	server.Away(false)
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
	n.eventually("no problem is left", func() bool { return n.problems() == "" })
}

// Verifies the first start without an API server: where labels matter the agent
// waits and says so; where they don't it does not wait. On a node that no profile is for it has
// nothing to do, and is ready.
func TestFirstStartWithoutServer(t *testing.T) {
	t.Parallel()
	selective, _, _ := strings.Cut(byLabel, "  - name: default")
	server := clustertest.New(t, "node-1", vendor("none"))
	server.Away(true)
	n := newNode(t)
	n.startKubelet()
	n.configure(selective)
	n.startAgentWith(n.inCluster(server))
	n.wantProblem("nothing runs until one can", "the node's labels are not known yet")
	if report := n.agent.Report(); report.Config.Profile != "" || len(report.Backends) != 0 {
		t.Errorf("without labels profile %q and %d backends run", report.Config.Profile, len(report.Backends))
	}
	server.Away(false)
	n.eventually("the agent is ready with nothing to do", func() bool {
		text, _, code := accelmux(t, "status", "--ready", "--run-dir", n.path("run"))
		return code == 0 && strings.HasPrefix(text, "ready, with nothing to do: no profile's nodeSelector matches the node's labels")
	})
	server.Away(true)
	n.configure(oneBackend)
	n.wantCounts(gpu, 4, 4)
	n.wantProfile("default", "no profile has a nodeSelector")
}

// Verifies that a device's failure and recovery, and a backend's crash, are Events
// on the Node; and that Events which the API server refuses are a problem and a metric, and are
// written with the right.
func TestEventsOnTheNode(t *testing.T) {
	t.Parallel()
	n, server, _ := startCluster(t, oneBackend, 4, map[string]string{})
	n.scenario("devices: {mock-1: {fault: {code: ecc, recovery: self}}}")
	n.wantEvent(server, events.DeviceUnhealthy, "device mock-1 of backend mock is unhealthy: ecc")
	server.ForbidVerbs("create", "patch")
	n.scenario("")
	n.wantProblem("Events about Node node-1 cannot be written", "`kubectl auth can-i", "events --namespace=default --as="+clustertest.Account+"`")
	n.wantMetrics("accelmux_apiserver_events_failing 1", "accelmux_ready 1")
	server.ForbidVerbs()
	n.wantEvent(server, events.DeviceRecovered, "device mock-1 of backend mock is healthy again")
	n.wantMetrics("accelmux_apiserver_events_failing 0", "accelmux_problems 0")
	n.kill(n.backend("mock").PID, unix.SIGKILL)
	n.wantEvent(server, events.BackendFailed, "backend mock failed")
}
