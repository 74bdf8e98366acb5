package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/injection"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/status"
)

// Verifies what containers get where the configuration leaves it to the agent, as the
// Node's software changes with kubelet's restarts, and that a runtime without CDI gets
// device nodes.
func TestInjectionFollowsTheNode(t *testing.T) {
	server := clustertest.New(t, "node-1", vendor("red"))
	server.SetSoftware("v1.28.15", "containerd://1.7.27")
	n := newNode(t)
	n.startKubelet()
	n.configure(byLabel)
	options := n.inCluster(server)
	options.Timing.Injection = injection.Timing{Start: time.Millisecond, Settle: 20 * time.Millisecond}
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	for i, c := range []struct {
		kubelet, runtime  string
		want              string
		names, annotation bool
	}{
		{"v1.28.15", "containerd://1.7.27", "cdi-annotations", false, true},
		{"v1.29.0", "containerd://1.7.27", "cdi", true, false},
		{"v1.29.0", "containerd://1.6.36", "plain", false, false},
		{"v1.31.14", "containerd://2.1.4", "cdi", true, false},
		{"", "", "cdi+cdi-annotations", true, true},
	} {
		server.SetSoftware(c.kubelet, c.runtime)
		if i > 0 {
			if err := n.kubelet.Restart(); err != nil {
				t.Fatal(err)
			}
			n.wantCounts(gpu, 4, 4)
		}
		n.eventually("injection "+c.want, func() bool {
			report := n.agent.Report()
			return slices.ContainsFunc(report.Resources, func(r status.Resource) bool {
				return r.Name == gpu && r.Injection == c.want && r.InjectionReason != ""
			})
		})
		// The report has what kubelet is told next.
		n.eventually(fmt.Sprintf("%s, %s: a container gets %s", c.kubelet, c.runtime, c.want), func() bool {
			allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
			if err != nil {
				t.Fatal(err)
			}
			n.kubelet.Free("pod")
			got := allocation.Response
			return len(got.GetCdiDevices()) > 0 == c.names && len(got.GetAnnotations()) > 0 == c.annotation && len(got.GetDevices()) > 0 == (c.want == "plain")
		})
	}
}
