package topology

import (
	"fmt"

	"github.com/accelmux/accelmux/core/inventory"
)

// machine makes n devices, halves of them on NUMA nodes 0 and 1, with the links that
// link says.
func machine(n int, link func(a, b int) inventory.Link) []Unit {
	var units []Unit
	for i := range n {
		d := &inventory.Device{Key: inventory.Key{Backend: "test", ID: fmt.Sprintf("gpu%02d", i)}, NUMANodes: []int{2 * i / n}}
		for j := range n {
			if l := link(i, j); j != i && l.Kind != "" {
				l.Peer = fmt.Sprintf("gpu%02d", j)
				d.Links = append(d.Links, l)
			}
		}
		units = append(units, Unit{ID: d.ID, Device: d, Healthy: true})
	}
	return units
}

// dgx1 is the hybrid cube mesh of a DGX-1 with V100, as `nvidia-smi topo -m` shows it:
// NVLinks by number, 0 where the way is across the sockets.
func dgx1() []Unit {
	return machine(8, func(a, b int) inventory.Link {
		if n := int(dgx1Lanes[a][b] - '0'); n > 0 {
			return inventory.Link{Kind: "nvlink", Count: n}
		}
		return inventory.Link{Kind: "cross_numa"}
	})
}

// dgx1Lanes are the NVLinks of each pair.
var dgx1Lanes = []string{
	"-1122000",
	"1-210200",
	"12-20010",
	"212-0001",
	"2000-112",
	"02001-21",
	"001012-2",
	"0001212-",
}

// switched is a machine with n GPUs at an NVSwitch: 12 lanes in a DGX A100, 18 in a
// DGX H100.
func switched(n, lanes int) []Unit {
	return machine(n, func(int, int) inventory.Link { return inventory.Link{Kind: "nvswitch", Count: lanes} })
}

// pcieOnly is a machine with two sockets, two PCIe switches each, n/4 GPUs at each.
func pcieOnly(n int) []Unit {
	return machine(n, func(a, b int) inventory.Link {
		switch {
		case 4*a/n == 4*b/n:
			return inventory.Link{Kind: "pcie_switch"}
		case 2*a/n == 2*b/n:
			return inventory.Link{Kind: "pcie_host_bridge"}
		}
		return inventory.Link{Kind: "cross_numa"}
	})
}

// torus is 16 accelerators in a torus of 4 by 4, without links but to the four next.
func torus() []Unit {
	next := func(a, b int) bool { return a == b || (a+1)%4 == b || (b+1)%4 == a }
	return machine(16, func(a, b int) inventory.Link {
		if (a/4 == b/4 && next(a%4, b%4)) || (a%4 == b%4 && next(a/4, b/4)) {
			return inventory.Link{Kind: "xgmi", Count: 2}
		}
		return inventory.Link{}
	})
}

// replicas makes n units of each.
func replicas(units []Unit, n int) []Unit {
	var out []Unit
	for _, u := range units {
		for r := range n {
			out = append(out, Unit{ID: fmt.Sprintf("%s::%d", u.ID, r), Device: u.Device, Healthy: true})
		}
	}
	return out
}

// split makes n partitions of each device: partitions of one have links of
// same_device, others those of their devices.
func split(units []Unit, n int) []Unit {
	var out []Unit
	part := func(id string, p int) string { return fmt.Sprintf("%s-p%d", id, p) }
	for _, u := range units {
		for p := range n {
			d := *u.Device
			d.ID, d.Parent, d.Links = part(u.ID, p), u.ID, nil
			for _, l := range u.Device.Links {
				for q := range n {
					d.Links = append(d.Links, inventory.Link{Peer: part(l.Peer, q), Kind: l.Kind, Count: l.Count, Distance: l.Distance})
				}
			}
			for q := range n {
				if q != p {
					d.Links = append(d.Links, inventory.Link{Peer: part(u.ID, q), Kind: "same_device"})
				}
			}
			out = append(out, Unit{ID: d.ID, Device: &d, Healthy: true})
		}
	}
	return out
}

// mi210 is a machine with eight MI210 in two hives, as the kernel's topology has them: a hop of
// XGMI within a hive, PCIe across the sockets.
func mi210() []Unit {
	return machine(8, func(a, b int) inventory.Link {
		if 2*a/8 == 2*b/8 {
			return inventory.Link{Kind: "xgmi", Count: 1, Distance: 15}
		}
		return inventory.Link{Kind: "cross_numa", Count: 1, Distance: 72}
	})
}

// mi300x is a machine with eight MI300X in partitions, of which the last GPU lacks one, with the
// kernel's weights.
func mi300x() []Unit {
	units := split(machine(8, func(int, int) inventory.Link { return inventory.Link{Kind: "xgmi", Count: 1, Distance: 41} }), 8)[:63]
	for _, u := range units {
		for i := range u.Device.Links {
			if l := &u.Device.Links[i]; l.Kind == "same_device" {
				l.Distance = 13
			}
		}
	}
	return units
}
