package inventory

import (
	"cmp"
	"slices"
)

// union returns the values of both lists, sorted, each once; nil if there are none.
func union[T cmp.Ordered](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// EditScope lists what container edits may contain. Patterns of paths are absolute and in
// the syntax of path.Match; one that ends in "/**" matches everything below it. An empty
// list allows nothing, and a malformed pattern matches nothing.
type EditScope struct {
	// Devices are host paths of device nodes. One without wildcards may be a directory's: all nodes
	// below it.
	Devices []string
	// Mounts are host paths that may be mounted, ReadOnlyMounts those that may only be
	// mounted read-only.
	Mounts, ReadOnlyMounts []string
	// Hooks are paths of OCI hook programs.
	Hooks []string
	// Env are names of environment variables, of containers and of hooks. One that ends in
	// "*" matches all names with that prefix.
	Env []string
	// GIDs are additional groups. A group that owns one of the device nodes in the same
	// edits is always allowed.
	GIDs []uint32
	// NetDevices are patterns of names of the host's network interfaces.
	NetDevices []string
}

// Empty reports whether nothing is allowed.
func (s EditScope) Empty() bool { return s.Equal(EditScope{}) }

func (s EditScope) clone() EditScope {
	return EditScope{
		Devices: slices.Clone(s.Devices), Mounts: slices.Clone(s.Mounts), ReadOnlyMounts: slices.Clone(s.ReadOnlyMounts),
		Hooks: slices.Clone(s.Hooks), Env: slices.Clone(s.Env), GIDs: slices.Clone(s.GIDs), NetDevices: slices.Clone(s.NetDevices),
	}
}

// join returns the entries of both, sorted, each once.
func (s EditScope) join(o EditScope) EditScope {
	return EditScope{
		Devices: union(s.Devices, o.Devices), Mounts: union(s.Mounts, o.Mounts), ReadOnlyMounts: union(s.ReadOnlyMounts, o.ReadOnlyMounts),
		Hooks: union(s.Hooks, o.Hooks), Env: union(s.Env, o.Env), GIDs: union(s.GIDs, o.GIDs), NetDevices: union(s.NetDevices, o.NetDevices),
	}
}

// Equal reports whether both have the same entries in the same order.
func (s EditScope) Equal(o EditScope) bool {
	return slices.Equal(s.Devices, o.Devices) && slices.Equal(s.Mounts, o.Mounts) &&
		slices.Equal(s.ReadOnlyMounts, o.ReadOnlyMounts) && slices.Equal(s.Hooks, o.Hooks) &&
		slices.Equal(s.Env, o.Env) && slices.Equal(s.GIDs, o.GIDs) && slices.Equal(s.NetDevices, o.NetDevices)
}
