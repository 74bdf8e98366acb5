package topology

import (
	"fmt"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/test/machines"
)

// whole makes a unit of each device.
func whole(devices []*inventory.Device) (units []Unit) {
	for _, d := range devices {
		units = append(units, Unit{ID: d.ID, Device: d, Healthy: true})
	}
	return units
}

func dgx1() []Unit                 { return whole(machines.DGX1()) }
func switched(n, lanes int) []Unit { return whole(machines.Switched(n, lanes)) }
func pcieOnly(n int) []Unit        { return whole(machines.PCIe(n)) }
func torus() []Unit                { return whole(machines.Torus()) }
func mi210() []Unit                { return whole(machines.MI210()) }

// mi300x lacks the last partition.
func mi300x() []Unit { return whole(machines.MI300X())[:63] }

func machine(n int, link func(a, b int) inventory.Link) []Unit { return whole(machines.New(n, link)) }

// split makes n partitions of each unit's device.
func split(units []Unit, n int) []Unit {
	var devices []*inventory.Device
	for _, u := range units {
		devices = append(devices, u.Device)
	}
	return whole(machines.Split(devices, n))
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
