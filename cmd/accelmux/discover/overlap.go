package discover

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// fitting returns the presets that have devices, without those of which the presets before them
// have every device: with both each device could be given to two containers. The general preset,
// vfio-pci, is one of the last by name.
func fitting(presets []string, b *inventory.Backend) []string {
	var found []string
	for _, preset := range presets {
		if devices := ofClass(b.Devices, preset); len(alsoIn(devices, b.Devices, found)) < len(devices) {
			found = append(found, preset)
		}
	}
	return found
}

func ofClass(devices []*inventory.Device, class string) []*inventory.Device {
	return slices.DeleteFunc(slices.Clone(devices), func(d *inventory.Device) bool { return d.Class != class })
}

// alsoIn returns those of the devices that are, as another device, of one of the classes: on the
// same PCI function, and with a device node of it, if both have nodes.
func alsoIn(of, all []*inventory.Device, classes []string) []*inventory.Device {
	return slices.DeleteFunc(slices.Clone(of), func(d *inventory.Device) bool {
		return d.PCIBusID == "" || !slices.ContainsFunc(all, func(other *inventory.Device) bool {
			return slices.Contains(classes, other.Class) && other.Class != d.Class && other.PCIBusID == d.PCIBusID && shareNode(d, other)
		})
	})
}

func shareNode(a, b *inventory.Device) bool {
	return len(a.Edits.DeviceNodes) == 0 || len(b.Edits.DeviceNodes) == 0 ||
		slices.ContainsFunc(a.Edits.DeviceNodes, func(n inventory.DeviceNode) bool {
			return slices.ContainsFunc(b.Edits.DeviceNodes, func(m inventory.DeviceNode) bool { return n.HostPath == m.HostPath })
		})
}
