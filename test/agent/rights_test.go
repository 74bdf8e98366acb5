package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
)

// Verifies that rights which are taken away from a running agent cost nothing that
// runs; that status says which right is missing and how to check it, and a metric
// that something is; and that all comes back with the rights, without a restart.
func TestRightsTakenAway(t *testing.T) {
	t.Parallel()
	const as = " --as=" + clustertest.Account + "`"
	for name, c := range map[string]struct {
		verbs  []string
		says   []string
		metric map[string]string // before and after, and meanwhile
	}{
		"watch": {
			[]string{"watch"}, []string{"the API server forbids it", "kubectl auth can-i watch nodes" + as, "the labels last seen still count"},
			map[string]string{"accelmux_apiserver_watching 1": "accelmux_apiserver_watching 0"},
		},
		"Events": {
			[]string{"create", "patch"}, []string{"Events about Node node-1 cannot be written", "`kubectl auth can-i", "events --namespace=default" + as},
			map[string]string{"accelmux_apiserver_events_failing 0": "accelmux_apiserver_events_failing 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := clustertest.New(t, "node-1", vendor("red"))
			n := newNode(t)
			n.startKubelet()
			n.configure(byLabel)
			options := n.inCluster(server)
			options.Timing.Events = events.Timing{Backoff: time.Millisecond, Spread: 1, BackoffLimit: 100 * time.Millisecond}
			withMetrics(&options)
			n.startAgentWith(options)
			n.wantCounts(gpu, 4, 4)
			n.wantProfile("red", "its nodeSelector")
			n.mark(gpu)

			server.ForbidVerbs(c.verbs...)
			server.Cut() // a watch that runs is not refused
			n.configure(strings.Replace(byLabel, "count: 4", "count: 5", 1))
			n.wantCounts(gpu, 5, 5)
			n.wantProblem(c.says...)
			for fine, failing := range c.metric {
				n.wantMetrics(failing, "accelmux_ready 1")
				server.ForbidVerbs()
				n.wantMetrics(fine, "accelmux_problems 0")
			}
			n.wantNoDip(gpu, 4)
			server.SetLabels(vendor("blue"))
			n.wantCounts(gpu, 6, 6)
			n.wantEvent(server, events.ProfileApplied, "profile blue is applied")
		})
	}
}
