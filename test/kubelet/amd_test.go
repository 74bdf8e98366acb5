package kubelet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

const (
	amdCPX = "amd.com/cpx_nps4"
	amdSPX = "amd.com/spx_nps1"
)

// machine is a node with eight MI300X in CPX: 63 partitions, since one has no node.
type machine struct {
	*node
	tree *amdtree.Tree
}

// startAMD is a node whose AMD backend finds that machine, with all partitions healthy.
func startAMD(t *testing.T) *machine {
	t.Helper()
	m := &machine{node: newNode(t, realkubelet.Options{}), tree: amdtree.New(t, amdtree.NewMI300X("CPX", "NPS4"))}
	m.tree.Sudden = true
	m.agent.Args = []string{"--devfs", m.tree.Devfs(), "--sysfs", m.tree.Sysfs()}
	m.startKubelet()
	m.configure(agent.Config{
		Backend: agent.Backend{
			// An attempt of a reset takes the whole hive out of service for a moment.
			Name: "amd", Recovery: &agent.Recovery{Delay: "0s", Reset: "never"},
			Settings: map[string]any{
				"partitions": map[string]any{"strategy": "mixed"}, "poll": "100ms", "rescan": "1s", "health": map[string]any{"interval": "1s"},
			},
		},
		Resources: []agent.Resource{{Name: "amd.com/{computePartition}_{memoryPartition}"}, {Name: "amd.com/gpu"}},
	})
	m.startAgent()
	m.wantCounts(amdCPX, 63, 63)
	return m
}

// wantNodes fails if the nodes of so many partitions are not KFD's, once, and of each
// partition a render node and a card node that no other has.
func (m *machine) wantNodes(nodes []string, partitions int) {
	m.Helper()
	kinds := map[string]int{}
	for _, node := range nodes {
		kinds[strings.TrimRight(node, "0123456789")]++
	}
	slices.Sort(nodes)
	if kinds["/dev/kfd"] != 1 || kinds["/dev/dri/renderD"] != partitions || kinds["/dev/dri/card"] != partitions ||
		len(slices.Compact(slices.Clone(nodes))) != 1+2*partitions {
		m.Errorf("%d partitions have the nodes %v", partitions, nodes)
	}
}

// TestAMDPartitions verifies that pods get partitions by the name of their style, with
// the nodes of those and no other, and that a card whose style is switched is another
// resource's while a pod keeps what it holds of another card.
func TestAMDPartitions(t *testing.T) {
	m := startAMD(t)
	pod := m.admit("holder", amdCPX, 2)
	var all []string
	for _, name := range m.cdiNames(m.startContainer(pod)) {
		nodes := m.nodes(name)
		m.wantNodes(nodes, 1)
		all = append(all, slices.DeleteFunc(nodes, func(node string) bool { return node == "/dev/kfd" })...)
	}
	m.wantNodes(append(all, "/dev/kfd"), 2)

	held := m.held(pod, amdCPX)
	devices, err := m.agent.Devices(m.soon())
	if err != nil {
		t.Fatal(err)
	}
	switched, others := 0, 0
	for gpu := range 8 {
		// Of the cards only one, and none that the pod has a partition of.
		if !slices.ContainsFunc(held, func(id string) bool { return devices[id].PCIBusID == m.busID(gpu) }) {
			switched = gpu
		}
	}
	for _, d := range devices {
		if d.PCIBusID != m.busID(switched) {
			others++
		}
	}
	record := m.kubelet.Record(amdCPX, time.Millisecond)
	if err := m.tree.SwitchPartition(switched, "SPX", "NPS1"); err != nil {
		t.Fatal(err)
	}
	m.wantCounts(amdSPX, 1, 1)
	m.wantCounts(amdCPX, int64(others), int64(others))
	m.wantNoDip(record, int64(others))
	whole := m.admit("whole", amdSPX, 1)
	m.wantNodes(m.nodes(m.cdiNames(m.startContainer(whole))[0]), 1)
	if again := m.held(pod, amdCPX); !slices.Equal(again, held) {
		t.Errorf("the pod holds %v, held %v", again, held)
	}
	m.startContainer(pod) // once more, as after a crash
}

// busID is the PCI address of a card.
func (m *machine) busID(gpu int) string { return m.tree.Machine().GPUs[gpu].Address.String() }
