package inventory

import (
	"reflect"
	"slices"
)

// equalDevice compares all fields. It does not use reflection because it runs for every device
// of every report; a test verifies by reflection that no field is missing.
func equalDevice(a, b *Device) bool { return a.Health == b.Health && EqualButHealth(a, b) }

// EqualButHealth compares all fields but the health.
func EqualButHealth(a, b *Device) bool {
	return a.Key == b.Key && a.Class == b.Class &&
		a.PCIBusID == b.PCIBusID && a.PCIeRoot == b.PCIeRoot && a.Parent == b.Parent && a.ResetGroup == b.ResetGroup && a.Hooks == b.Hooks && a.PreparedFor == b.PreparedFor &&
		slices.Equal(a.NUMANodes, b.NUMANodes) && slices.Equal(a.Links, b.Links) &&
		slices.Equal(a.Capacities, b.Capacities) && slices.EqualFunc(a.Attributes, b.Attributes, equalAttribute) &&
		a.Shareable == b.Shareable && a.Potential == b.Potential && a.MadeFor == b.MadeFor && a.SlowToPrepare == b.SlowToPrepare &&
		reflect.DeepEqual(a.Policies, b.Policies) && reflect.DeepEqual(a.Consumes, b.Consumes) &&
		equalEdits(a.Edits, b.Edits) && equalEdits(a.AdminEdits, b.AdminEdits)
}

func equalAttribute(a, b NamedValue[Attribute]) bool {
	return a.Name == b.Name && a.Value.Equal(b.Value)
}

func equalEdits(a, b Edits) bool {
	return slices.Equal(a.Env, b.Env) && slices.Equal(a.EnvSeparators, b.EnvSeparators) &&
		slices.Equal(a.DeviceNodes, b.DeviceNodes) &&
		slices.EqualFunc(a.Mounts, b.Mounts, equalMount) && slices.EqualFunc(a.Hooks, b.Hooks, equalOCIHook) &&
		slices.Equal(a.AdditionalGIDs, b.AdditionalGIDs) && slices.Equal(a.NetDevices, b.NetDevices)
}

func equalMount(a, b Mount) bool {
	return a.HostPath == b.HostPath && a.ContainerPath == b.ContainerPath && a.Writable == b.Writable && slices.Equal(a.Options, b.Options)
}

func equalOCIHook(a, b OCIHook) bool {
	return a.Name == b.Name && a.Path == b.Path && slices.Equal(a.Args, b.Args) && slices.Equal(a.Env, b.Env)
}
