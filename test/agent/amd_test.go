package agent

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/amdtree"
)

// Verifies that the chart's example values list the partitions of all styles, and the
// GPUs that have none, that the one problem is the machine's GPUs of another vendor, and that a
// container gets its partition's own nodes, and KFD's once. No unit is advertised before its CDI
// definition is written.
func TestAMDExample(t *testing.T) {
	t.Parallel()
	const cpx = "amd.com/cpx_nps4"
	tree := amdtree.New(t, amdtree.NewMixed())
	n := newNode(t)
	definitions := func() map[string]string { return n.definitions("amd", "gpu", "partition") }
	n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: func(e kubelettest.Event) {
		written := definitions()
		for _, d := range n.kubelet.Devices(e.Resource) {
			if e.Type == kubelettest.EventDevices && d.Healthy && written[d.ID] == "" {
				t.Errorf("%s of %s is advertised before the CDI spec has a definition", d.ID, e.Resource)
			}
		}
	}})
	n.startKubelet()
	n.configure(chartExample(t, "amd.yaml"))
	options := n.options()
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: tree.Devfs(), Sysfs: tree.Sysfs()}
	n.startAgentWith(options)
	for resource, units := range map[string]int{"amd.com/gpu": 1, "amd.com/spx_nps1": 1, cpx: 8, "amd.com/dpx_nps1": 2, "amd.com/qpx_nps1": 4} {
		n.wantCounts(resource, units, units)
	}
	if p := n.problems(); !strings.Contains(p, "add the backend nvidia") || strings.Contains(strings.TrimSpace(p), "\n") {
		t.Errorf("the problems are %q, want the NVIDIA GPUs alone", p)
	}
	nodes, written := map[string]string{}, definitions()
	for _, id := range n.allocate("pod", cpx, 8) {
		got := written[id]
		if strings.Count(got, `"/dev/kfd"`) != 1 || strings.Count(got, `"/dev/dri/renderD`) != 1 || strings.Count(got, `"/dev/dri/card`) != 1 {
			t.Errorf("%s: a container gets %s; want /dev/kfd, a render node and a card node, each once", id, got)
		}
		for _, node := range strings.Split(got, `"`) {
			if !strings.HasPrefix(node, "/dev/dri/") {
				continue
			}
			if nodes[node] != "" {
				t.Errorf("%s and %s have %s", id, nodes[node], node)
			}
			nodes[node] = id
		}
	}
}
