package agent

import (
	"fmt"

	"github.com/accelmux/accelmux/core/inventory"
)

// many is a snapshot of so many devices.
func many(devices int) *inventory.Snapshot {
	backend := &inventory.Backend{Name: "mock", Generation: 1, Devices: make([]*inventory.Device, devices)}
	for i := range backend.Devices {
		id := fmt.Sprintf("mock-%d", i)
		backend.Devices[i] = &inventory.Device{
			Key: inventory.Key{Backend: "mock", ID: id}, Class: "gpu", NUMANodes: []int{i % 2},
			Health: inventory.Health{State: inventory.StateHealthy},
			Edits:  inventory.Edits{DeviceNodes: []inventory.DeviceNode{{Path: "/dev/null", HostPath: "/dev/null", Permissions: "rw"}}, Env: inventory.Named(map[string]string{"MOCK": id})},
		}
	}
	return &inventory.Snapshot{Generation: 1, Backends: []*inventory.Backend{backend}}
}

// flapped is the snapshot with another health of one device.
func flapped(before *inventory.Snapshot, place int, fails bool) *inventory.Snapshot {
	backend := *before.Backends[0]
	backend.Generation++
	backend.Devices = append([]*inventory.Device(nil), backend.Devices...)
	d := *backend.Devices[place]
	d.Health = inventory.Health{State: inventory.StateHealthy, Recovered: true}
	if fails {
		d.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: inventory.RecoverySelf}
	}
	backend.Devices[place] = &d
	return &inventory.Snapshot{Generation: before.Generation + 1, Backends: []*inventory.Backend{&backend}}
}
