package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// Group is a part of a hierarchy, for people to look at.
type Group struct {
	// Names say what it is: "all", "links of 19999", "NUMA 0", "device gpu0".
	Names []string
	// Weight is that of the links among different devices in it.
	Weight int64
	// Units are those that are directly in it.
	Units  []string
	Groups []Group
}

// Groups are the units as a tree. ok is false where they are no hierarchy.
func (t *Topology) Groups() (all Group, ok bool) {
	if t.tree == nil || len(t.tree.nodes) == 0 {
		return Group{}, false
	}
	return t.group(0), true
}

func (t *Topology) group(i int32) Group {
	n := &t.tree.nodes[i]
	g := Group{Weight: n.weight, Names: t.names(i)}
	for _, c := range n.children {
		if child := &t.tree.nodes[c]; len(child.units) == 0 {
			g.Groups = append(g.Groups, t.group(c))
			continue
		}
		for _, u := range t.tree.nodes[c].units {
			g.Units = append(g.Units, t.units[u].ID)
		}
	}
	slices.Sort(g.Units)
	return g
}

func (t *Topology) names(i int32) (names []string) {
	n := &t.tree.nodes[i]
	device := t.devices[t.device[t.tree.firstUnit(i)]]
	if i == 0 {
		names = append(names, "all")
	}
	if n.top && !n.device && n.weight > 0 {
		names = append(names, fmt.Sprintf("links of %d", n.weight))
	}
	if n.numa > 0 {
		var nodes []string
		for _, node := range device.NUMANodes {
			nodes = append(nodes, fmt.Sprint(node))
		}
		names = append(names, "NUMA "+strings.Join(slices.Compact(nodes), ","))
	}
	if n.physical || n.device {
		name := device.ID
		if n.physical && !n.device {
			name = t.roots[t.physical[t.device[t.tree.firstUnit(i)]]].ID
		}
		names = append(names, "device "+name)
	}
	return names
}

// firstUnit is the lowest unit of a node.
func (t *tree) firstUnit(i int32) int32 {
	for len(t.nodes[i].units) == 0 {
		i = t.nodes[i].children[0]
	}
	return t.nodes[i].units[0]
}

// Devices are those of the units, in the order of the units.
func (t *Topology) Devices() []*inventory.Device { return slices.Clone(t.devices) }

// Weight is that of the links between two of Devices, by their places; 0 for a device
// and itself, as for those without a link both ways, and for places that are none.
func (t *Topology) Weight(a, b int) int64 {
	if n := len(t.devices); a < 0 || b < 0 || a >= n || b >= n {
		return 0
	}
	return t.graph.weight(int32(a), int32(b)) //nolint:gosec // bounded above
}
