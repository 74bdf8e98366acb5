package diagram

import (
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/topology"
	"github.com/accelmux/accelmux/test/machines"
)

// machine returns the units of devices, one each.
func machine(devices []*inventory.Device) (units []Used) {
	for _, d := range devices {
		units = append(units, free(d))
	}
	return units
}

func free(d *inventory.Device) Used {
	return Used{Unit: topology.Unit{ID: d.ID, Device: d, Healthy: true}}
}

func dgx1() []Used     { return machine(machines.DGX1()) }
func switched() []Used { return machine(machines.Switched(8, 18)) }
func pcie() []Used     { return machine(machines.PCIe(8)) }
func cpx() []Used      { return machine(machines.MI300X()) }

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
