package kubelet

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
	"github.com/accelmux/accelmux/test/sysroot"
)

// TestFPGAs verifies that FPGAs of each of Intel's kinds are in kubelet's books by what
// bitstreams must fit, and that a container gets the nodes of its ports and no other.
func TestFPGAs(t *testing.T) {
	const n3000, d5005 = "fpga.intel.com/region-a5d72a3cc8b04939912cf715e5dc10ca", "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d"
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewMixed())
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, realkubelet.Options{})
	n.agent.Args = []string{"--devfs", tree.Devfs(), "--sysfs", tree.Sysfs()}
	n.startKubelet()
	n.configure(agent.Config{
		Backend:   agent.Backend{Name: "fpga", Settings: map[string]any{"mode": "region"}},
		Resources: []agent.Resource{{Name: "fpga.intel.com/{regionName}"}},
	})
	n.startAgent()
	n.wantCounts(n3000, 4, 4)
	n.wantCounts(d5005, 2, 2)
	names := deviceNames(n.cdiNames(n.startContainer(n.admit("pod", n3000, 2))))
	if len(names) != 2 {
		t.Errorf("the container has the CDI devices %q, want two", names)
	}
	for _, name := range names {
		if nodes := n.nodes(name); len(nodes) != 1 || !strings.HasPrefix(nodes[0], "/dev/dfl-port.") {
			t.Errorf("%s has the nodes %q, want that of its port", name, nodes)
		}
	}
}
