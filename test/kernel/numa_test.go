package kernel

import (
	"fmt"
	"slices"
	"testing"
)

// TestCardsHaveTheNodeOfTheirBridge verifies the NUMA node of cards behind the expander bridges of both nodes. It fails
// if a node is taken from the first root bus.
func TestCardsHaveTheNodeOfTheirBridge(t *testing.T) {
	configure(t, standard)
	for node := range 2 {
		address := card(t, fmt.Sprintf("numa%d", node))
		bind(t, address, "vfio-pci")
		untilCount(t, vfio, 1)
		if d := m.Devices(t, vfio)[0]; !slices.Equal(d.NUMANodes, []int{node}) {
			t.Errorf("NUMA nodes %v of %s behind the expander bridge of node %d", d.NUMANodes, d.ID, node)
		}
		unplug(t, fmt.Sprintf("card-numa%d", node))
		untilCount(t, vfio, 0)
	}
}
