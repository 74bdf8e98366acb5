package agent

import (
	"testing"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
)

// Verifies that a whole agent, with a pod that holds devices and a monitoring that
// scrapes it, sends no request to the API server in steady state but for the watch.
func TestSteadyState(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", vendor("red"))
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	options := n.inCluster(server)
	withMetrics(&options)
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 2); err != nil {
		t.Fatal(err)
	}
	n.wantMetrics("accelmux_ready 1", `accelmux_resource_allocated_units{resource="example.com/gpu"} 2`)
	n.wantApplied(server, 1)
	for range 3 {
		watches := server.Requests("watch")
		server.Cut()
		n.eventually("the watch is renewed", func() bool { return server.Requests("watch") > watches && server.Watching() == 1 })
		n.wantMetrics("accelmux_problems 0", "accelmux_apiserver_watching 1")
	}
	if created, patched := server.Requests("create"), server.Requests("patch"); created != 1 || patched != 0 {
		t.Errorf("%d Events created and %d patched, want the one of the start", created, patched)
	}
}
