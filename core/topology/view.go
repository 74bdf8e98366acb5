package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// Group is a part of a hierarchy, for display.
type Group struct {
	// Names describe the group: "all", "links of 1800", "NUMA 0", "device gpu0".
	Names []string
	// Weight is that of the links among different devices in it.
	Weight int64
	// Units are those that are directly in it.
	Units  []string
	Groups []Group
}

// Groups returns the units as a tree: units with better links to each other than to the
// rest are a group, then units on the same NUMA nodes, then parts of one device. ok is
// false if the links make no such groups, as in a mesh.
func (t *Topology) Groups() (all Group, ok bool) {
	if len(t.devices) == 0 {
		return Group{}, false
	}
	devices := make([]int32, len(t.devices))
	for i := range devices {
		devices[i] = int32(i) //nolint:gosec // bounded by the units
	}
	units := make([][]string, len(t.devices))
	for u, d := range t.device {
		units[d] = append(units[d], t.units[u].ID)
	}
	all, ok = t.group(devices, nil, units)
	all.Names = append([]string{"all"}, all.Names...)
	return all, ok
}

// group returns the group of devices, a part of those above; units are indexed by device.
func (t *Topology) group(devices, above []int32, units [][]string) (g Group, ok bool) {
	parts, least, ok := t.split(devices)
	if !ok {
		return g, false
	}
	g.Weight = least
	if least > 0 {
		g.Names = append(g.Names, fmt.Sprintf("links of %d", least))
	}
	first := devices[0]
	if t.numa[first] != 0 && sameOf(devices, t.numa) && !sameOf(above, t.numa) {
		var nodes []string
		for _, node := range t.devices[first].NUMANodes {
			nodes = append(nodes, fmt.Sprint(node))
		}
		g.Names = append(g.Names, "NUMA "+strings.Join(slices.Compact(nodes), ","))
	}
	switch {
	case len(devices) == 1 && len(units[first]) > 1:
		g.Names = append(g.Names, "device "+t.devices[first].ID)
	case len(devices) > 1 && sameOf(devices, t.physical) && !sameOf(above, t.physical):
		g.Names = append(g.Names, "device "+t.roots[t.physical[first]].ID)
	}
	for _, part := range parts {
		if len(part) == len(devices) || len(part) == 1 && len(units[part[0]]) == 1 {
			for _, d := range part {
				g.Units = append(g.Units, units[d]...)
			}
			continue
		}
		child, ok := t.group(part, devices, units)
		if !ok {
			return g, false
		}
		g.Groups = append(g.Groups, child)
	}
	slices.Sort(g.Units)
	return g, true
}

// split divides devices by the links that are better than the least of them; if all links
// are equal, by NUMA nodes, then by physical device. ok is false if none of these divides
// them although the links differ.
func (s *shape) split(devices []int32) (parts [][]int32, least int64, ok bool) {
	in := make([]bool, len(s.devices))
	for _, d := range devices {
		in[d] = true
	}
	least, best, links := int64(noLink), int64(0), 0
	for _, d := range devices {
		for _, n := range s.graph[d] {
			if in[n.device] {
				links++
				least, best = min(least, n.value), max(best, n.value)
			}
		}
	}
	if links < len(devices)*(len(devices)-1) || links == 0 {
		least = 0 // a pair without a link, or no pair
	}
	if best > least {
		parts = s.linked(devices, in, least)
		return parts, least, len(parts) > 1
	}
	if parts = by(devices, s.numa); len(parts) == 1 {
		parts = by(devices, s.physical)
	}
	return parts, least, true
}

// linked divides devices into groups that links of more than least join.
func (s *shape) linked(devices []int32, in []bool, least int64) (parts [][]int32) {
	for _, d := range devices {
		if !in[d] {
			continue
		}
		in[d] = false
		part := []int32{d}
		for i := 0; i < len(part); i++ {
			for _, n := range s.graph[part[i]] {
				if n.value > least && in[n.device] {
					in[n.device] = false
					part = append(part, n.device)
				}
			}
		}
		slices.Sort(part)
		parts = append(parts, part)
	}
	return parts
}

// by divides devices by a value of each.
func by[T comparable](devices []int32, has []T) (parts [][]int32) {
	index := map[T]int{}
	for _, d := range devices {
		i, ok := index[has[d]]
		if !ok {
			i = len(parts)
			index[has[d]] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], d)
	}
	return parts
}

// sameOf reports whether there are devices, and all have the same value.
func sameOf[T comparable](devices []int32, has []T) bool {
	return len(devices) > 0 && !slices.ContainsFunc(devices, func(d int32) bool { return has[d] != has[devices[0]] })
}

// Devices are those of the units, in the order of the units.
func (t *Topology) Devices() []*inventory.Device { return slices.Clone(t.devices) }

// Weight is what the links count for between two of Devices, by their places; 0 for a device
// and itself, as for those without a link both ways, and for places that are none.
func (t *Topology) Weight(a, b int) int64 {
	if n := len(t.devices); a < 0 || b < 0 || a >= n || b >= n {
		return 0
	}
	return t.graph.value(int32(a), int32(b)) //nolint:gosec // bounded above
}
