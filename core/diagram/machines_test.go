package diagram

import (
	"fmt"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
)

// machine returns n devices, one half on each of NUMA nodes 0 and 1, with the links that
// link returns.
func machine(n int, link func(a, b int) inventory.Link) []Used {
	var units []Used
	for i := range n {
		d := &inventory.Device{Key: inventory.Key{Backend: "test", ID: fmt.Sprintf("gpu%d", i)}, NUMANodes: []int{2 * i / n}}
		for j := range n {
			if l := link(i, j); j != i && l.Kind != "" {
				l.Peer = fmt.Sprintf("gpu%d", j)
				d.Links = append(d.Links, l)
			}
		}
		units = append(units, free(d))
	}
	return units
}

func free(d *inventory.Device) Used {
	return Used{Unit: topology.Unit{ID: d.ID, Device: d, Healthy: true}}
}

// dgx1 is the hybrid cube mesh of a DGX-1 with V100, as `nvidia-smi topo -m` shows it:
// NVLinks by number, 0 where the way is across the sockets.
func dgx1() []Used {
	lanes := []string{"-1122000", "1-210200", "12-20010", "212-0001", "2000-112", "02001-21", "001012-2", "0001212-"}
	return machine(8, func(a, b int) inventory.Link {
		if n := int(lanes[a][b] - '0'); n > 0 {
			return inventory.Link{Kind: "nvlink", Count: n}
		}
		return inventory.Link{Kind: "cross_numa"}
	})
}

// switched is 8 GPUs at NVSwitches with 18 lanes each, as in a DGX H100.
func switched() []Used {
	return machine(8, func(int, int) inventory.Link { return inventory.Link{Kind: "nvswitch", Count: 18} })
}

// pcie is two sockets with two PCIe switches each, two GPUs at each.
func pcie() []Used {
	return machine(8, func(a, b int) inventory.Link {
		switch {
		case a/2 == b/2:
			return inventory.Link{Kind: "pcie_switch"}
		case a/4 == b/4:
			return inventory.Link{Kind: "pcie_host_bridge"}
		}
		return inventory.Link{Kind: "cross_numa"}
	})
}

// cpx is 8 GPUs of XGMI in 8 partitions each, as MI300X in mode CPX.
func cpx() []Used {
	name := func(i int) string { return fmt.Sprintf("gpu%d-%d", i/8, i%8) }
	units := machine(64, func(a, b int) inventory.Link {
		if a/8 == b/8 {
			return inventory.Link{Kind: "same_device"}
		}
		return inventory.Link{Kind: "xgmi", Count: 1, Distance: 15}
	})
	for i, u := range units {
		u.Device.ID, u.Device.Parent = name(i), fmt.Sprintf("gpu%d", i/8)
		for l := range u.Device.Links {
			var peer int
			_, _ = fmt.Sscanf(u.Device.Links[l].Peer, "gpu%d", &peer)
			u.Device.Links[l].Peer = name(peer)
		}
		units[i].ID = u.Device.ID
	}
	return units
}

// resource returns a resource with the units.
func resource(units []Used, policy topology.Policy) Resource {
	plain := make([]topology.Unit, len(units))
	for i, u := range units {
		plain[i] = u.Unit
	}
	return Resource{
		Name: "example.com/gpu", Policy: policy, Units: units,
		Topology: topology.Prepare(plain, topology.Options{Policy: policy}),
	}
}

// use marks units as held by a pod, or as unhealthy.
func use(units []Used, held, broken []int) []Used {
	for _, i := range held {
		units[i].Held, units[i].Holder = true, "team/train/main"
	}
	for _, i := range broken {
		units[i].Healthy = false
	}
	return units
}
