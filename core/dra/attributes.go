package dra

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/resource"
)

// pcieRoots finds the attribute resource.kubernetes.io/pcieRoot, and remembers it: sysfs is slow for
// thousands of devices, and the root of an address never changes.
type pcieRoots struct {
	sysfs string
	mu    sync.Mutex
	known map[string]string
}

// of returns the attribute of a PCI address; "" if sysfs does not have it.
func (r *pcieRoots) of(busID string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if root, ok := r.known[busID]; ok {
		return root
	}
	attribute, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(busID, deviceattribute.WithFSFromRoot(r.sysfs))
	if err != nil {
		return ""
	}
	r.known[busID] = *attribute.Value.StringValue
	return r.known[busID]
}

// attributes returns those of a device for a container: as they are published, and those with several values, which
// not every cluster has in slices. It is nil if the driver does not have the device.
func (d *Driver) attributes(name string) map[string]resourceapi.DeviceAttribute {
	device, _, ok := d.device(name)
	if !ok {
		return nil
	}
	publication := d.newest()
	p := pool.New(pool.Options{
		Backend: publication.Backend, Devices: []resource.Device{device}, Resource: publication.Resource, LinkGroups: publication.LinkGroups,
		Features: pool.Features{Lists: true}, PCIeRoot: d.publisher.roots.of,
	})
	all := map[string]resourceapi.DeviceAttribute{}
	for _, slice := range p.Slices {
		for _, published := range slice.Devices {
			for attribute, value := range published.Attributes {
				all[string(attribute)] = value
			}
		}
	}
	return all
}
