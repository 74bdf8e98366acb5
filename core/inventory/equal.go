package inventory

import (
	"maps"
	"slices"
)

// equalDevice compares everything. It is written out because it runs for every
// device of every report; a test compares it with reflection, so that no field
// is forgotten.
func equalDevice(a, b *Device) bool {
	return a.Key == b.Key && a.Class == b.Class && a.Health == b.Health &&
		a.PCIBusID == b.PCIBusID && a.Parent == b.Parent && a.ResetGroup == b.ResetGroup && a.Hooks == b.Hooks && a.Holders == b.Holders &&
		slices.Equal(a.NUMANodes, b.NUMANodes) && slices.Equal(a.Links, b.Links) &&
		maps.Equal(a.Capacities, b.Capacities) &&
		maps.EqualFunc(a.Attributes, b.Attributes, equalAttribute) &&
		equalEdits(a.Edits, b.Edits)
}

// SameEdits compares what containers get with two devices.
func SameEdits(a, b Edits) bool { return equalEdits(a, b) }

func equalEdits(a, b Edits) bool {
	return maps.Equal(a.Env, b.Env) && maps.Equal(a.EnvSeparators, b.EnvSeparators) &&
		slices.Equal(a.DeviceNodes, b.DeviceNodes) &&
		slices.EqualFunc(a.Mounts, b.Mounts, func(x, y Mount) bool {
			return x.HostPath == y.HostPath && x.ContainerPath == y.ContainerPath && x.Writable == y.Writable &&
				slices.Equal(x.Options, y.Options)
		}) &&
		slices.EqualFunc(a.Hooks, b.Hooks, func(x, y OCIHook) bool {
			return x.Name == y.Name && x.Path == y.Path && slices.Equal(x.Args, y.Args) && slices.Equal(x.Env, y.Env)
		}) &&
		slices.Equal(a.AdditionalGIDs, b.AdditionalGIDs)
}

func equalAttribute(a, b Attribute) bool {
	return equalPointer(a.String, b.String) && equalPointer(a.Int, b.Int) &&
		equalPointer(a.Bool, b.Bool) && equalPointer(a.Version, b.Version)
}

func equalPointer[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
