package resource

import (
	"slices"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// CoreAttributes returns the attributes that the core adds to a device, for selectors and slices alike: config.Facts and
// config.Standard, as far as the device has them.
func CoreAttributes(backend *inventory.Backend, d *inventory.Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(config.Facts())+len(config.Standard()))
	text := func(name resourceapi.QualifiedName, value string) {
		if value != "" {
			all[name] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	}
	text(deviceattribute.StandardDeviceAttributePCIBusID, d.PCIBusID)
	text(deviceattribute.StandardDeviceAttributePCIeRoot, d.PCIeRoot)
	text(fact(config.FactID), d.ID)
	text(fact(config.FactClass), d.Class)
	text(fact(config.FactPCIBusID), d.PCIBusID)
	text(fact(config.FactParent), d.Parent)
	text(fact(config.FactVendor), backend.Description.Vendor)
	if nodes := slices.Compact(slices.Clone(d.NUMANodes)); len(nodes) == 1 {
		node := resourceapi.DeviceAttribute{IntValue: new(int64(nodes[0]))}
		all[deviceattribute.StandardDeviceAttributeNUMANode], all[fact(config.FactNUMANode)] = node, node
	}
	if version := backend.Description.Version; version != "" {
		if _, err := semver.Parse(version); err == nil {
			all[fact(config.FactBackendVersion)] = resourceapi.DeviceAttribute{VersionValue: &version}
		}
	}
	return all
}

func fact(name string) resourceapi.QualifiedName {
	return resourceapi.QualifiedName(config.FactsDomain + "/" + name)
}
