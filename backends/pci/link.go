package pci

import backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"

// LinkTo returns the kind of the connection between two PCI functions: how far up their closest
// common bridge is. Two functions below one switch have only ports of their own between them.
func (d Device) LinkTo(other Device) backendv1.LinkKind {
	common := 0
	for common < min(len(d.Parents), len(other.Parents)) && d.Parents[common] == other.Parents[common] {
		common++
	}
	switch below := max(len(d.Parents), len(other.Parents)) - common; {
	case common > 0 && below <= 1:
		return backendv1.LinkKind_LINK_KIND_PCIE_SWITCH
	case common > 0:
		return backendv1.LinkKind_LINK_KIND_PCIE_MULTI_SWITCH
	case d.NUMANode < 0 || other.NUMANode < 0:
		return backendv1.LinkKind_LINK_KIND_OTHER
	case d.NUMANode != other.NUMANode:
		return backendv1.LinkKind_LINK_KIND_CROSS_NUMA
	case sameRoot(d, other):
		return backendv1.LinkKind_LINK_KIND_PCIE_HOST_BRIDGE
	}
	return backendv1.LinkKind_LINK_KIND_SAME_NUMA
}

// sameRoot reports whether two functions are below one host bridge: their root ports
// are on one bus.
func sameRoot(a, b Device) bool {
	if len(a.Parents) == 0 || len(b.Parents) == 0 {
		return false
	}
	first, second := a.Parents[0], b.Parents[0]
	return first.Domain == second.Domain && first.Bus == second.Bus
}
