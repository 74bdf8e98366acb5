package agent

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
)

// Verifies that a profile which is unknown or broken, whatever is wrong with it,
// keeps what runs, without a dip and with the same backend process; that status,
// an Event and a metric say so; and that each says that it is over.
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
			server := clustertest.New(t, "node-1", vendor("red"))
			n := newNode(t)
			n.startKubelet()
			n.configure(selective)
			options := n.inCluster(server)
			withMetrics(&options)
			n.startAgentWith(options)
			n.wantCounts(gpu, 4, 4)
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

// wantApplied waits until Events said that often that profile red is applied.
func (n *node) wantApplied(server *clustertest.Server, times int) {
	n.Helper()
	n.eventually("Events that profile red is applied", func() bool { return server.Count(string(events.ProfileApplied)) == times })
}
