// Package machines has the devices of machines that exist, with their links, for tests and benchmarks.
package machines

import (
	"fmt"

	"github.com/accelmux/accelmux/core/inventory"
)

// New returns n devices, gpu00 and so on, halves of them on NUMA nodes 0 and 1, with these links.
func New(n int, link func(a, b int) inventory.Link) []*inventory.Device {
	var devices []*inventory.Device
	for i := range n {
		d := &inventory.Device{Key: inventory.Key{Backend: "test", ID: fmt.Sprintf("gpu%02d", i)}, NUMANodes: []int{2 * i / n}}
		for j := range n {
			if l := link(i, j); j != i && l.Kind != "" {
				l.Peer = fmt.Sprintf("gpu%02d", j)
				d.Links = append(d.Links, l)
			}
		}
		devices = append(devices, d)
	}
	return devices
}

// DGX1 is the hybrid cube mesh of a DGX-1 with V100, as `nvidia-smi topo -m` shows it:
// NVLinks by number, 0 where the way is across the sockets.
func DGX1() []*inventory.Device {
	return New(8, func(a, b int) inventory.Link {
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

// Switched is a machine with n GPUs at an NVSwitch: 12 lanes in a DGX A100, 18 in a
// DGX H100.
func Switched(n, lanes int) []*inventory.Device {
	return New(n, func(int, int) inventory.Link { return inventory.Link{Kind: "nvswitch", Count: lanes} })
}

// PCIe is a machine with two sockets, two PCIe switches each, n/4 GPUs at each.
func PCIe(n int) []*inventory.Device {
	return New(n, func(a, b int) inventory.Link {
		switch {
		case 4*a/n == 4*b/n:
			return inventory.Link{Kind: "pcie_switch"}
		case 2*a/n == 2*b/n:
			return inventory.Link{Kind: "pcie_host_bridge"}
		}
		return inventory.Link{Kind: "cross_numa"}
	})
}

// Torus is 16 accelerators in a torus of 4 by 4, without links but to the four next.
func Torus() []*inventory.Device {
	next := func(a, b int) bool { return a == b || (a+1)%4 == b || (b+1)%4 == a }
	return New(16, func(a, b int) inventory.Link {
		if (a/4 == b/4 && next(a%4, b%4)) || (a%4 == b%4 && next(a/4, b/4)) {
			return inventory.Link{Kind: "xgmi", Count: 2}
		}
		return inventory.Link{}
	})
}

// Split makes n partitions of each device: partitions of one have links of
// same_device, others those of their devices.
func Split(devices []*inventory.Device, n int) []*inventory.Device {
	var out []*inventory.Device
	part := func(id string, p int) string { return fmt.Sprintf("%s-p%d", id, p) }
	for _, whole := range devices {
		for p := range n {
			d := *whole
			d.ID, d.Parent, d.Links = part(whole.ID, p), whole.ID, nil
			for _, l := range whole.Links {
				for q := range n {
					d.Links = append(d.Links, inventory.Link{Peer: part(l.Peer, q), Kind: l.Kind, Count: l.Count, Distance: l.Distance})
				}
			}
			for q := range n {
				if q != p {
					d.Links = append(d.Links, inventory.Link{Peer: part(whole.ID, q), Kind: "same_device"})
				}
			}
			out = append(out, &d)
		}
	}
	return out
}

// MI210 is a machine with eight MI210 in two hives, as the kernel's topology has them: a hop of
// XGMI within a hive, PCIe across the sockets.
func MI210() []*inventory.Device {
	return New(8, func(a, b int) inventory.Link {
		if 2*a/8 == 2*b/8 {
			return inventory.Link{Kind: "xgmi", Count: 1, Distance: 15}
		}
		return inventory.Link{Kind: "cross_numa", Count: 1, Distance: 72}
	})
}

// MI300X is a machine with eight MI300X in mode CPX, 64 partitions, with the kernel's weights.
func MI300X() []*inventory.Device {
	devices := Split(New(8, func(int, int) inventory.Link { return inventory.Link{Kind: "xgmi", Count: 1, Distance: 41} }), 8)
	for _, d := range devices {
		for i := range d.Links {
			if l := &d.Links[i]; l.Kind == "same_device" {
				l.Distance = 13
			}
		}
	}
	return devices
}

// WithPaths adds the links of other devices with the same IDs, such as those over PCIe.
func WithPaths(devices, paths []*inventory.Device) []*inventory.Device {
	for i, d := range devices {
		d.Links = append(d.Links, paths[i].Links...)
	}
	return devices
}
