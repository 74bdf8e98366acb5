package dra

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/resource"
)

// attributes returns those of a device for a container: as they are published, and those with several values, which
// not every cluster has in slices. It is nil if the driver does not have the device.
func (d *Driver) attributes(name string) map[string]resourceapi.DeviceAttribute {
	device, _, ok := d.device(name)
	if !ok {
		return nil
	}
	publication := d.newest()
	p := pool.New(pool.Options{
		Backend: publication.Backend, Devices: []resource.Device{device}, LinkGroups: publication.LinkGroups,
		Features: pool.Features{Lists: true},
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
