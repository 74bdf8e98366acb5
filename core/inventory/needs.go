package inventory

import (
	"cmp"
	"slices"
)

// Needs are what a backend declares to need on the node. Paths are patterns, as in
// [EditScope].
type Needs struct {
	// ReadPaths, WritePaths and OpenDevices are files and nodes that the process itself reads,
	// writes and opens; ListPaths directories that it lists, with those below.
	ReadPaths, ListPaths, WritePaths, OpenDevices []string
	// Capabilities are names as in capabilities(7).
	Capabilities []string
	// SystemCalls are groups beyond @system-service, by their names in systemd.exec(5).
	SystemCalls []string
	// Companions are names of processes that outlive it: the first arguments with which the
	// core starts its program once more.
	Companions []string
	// Edits is what its container edits may contain.
	Edits EditScope
}

// Join returns the needs of both together.
func (n Needs) Join(o Needs) Needs {
	return Needs{
		ReadPaths: union(n.ReadPaths, o.ReadPaths), ListPaths: union(n.ListPaths, o.ListPaths), WritePaths: union(n.WritePaths, o.WritePaths), OpenDevices: union(n.OpenDevices, o.OpenDevices),
		Capabilities: union(n.Capabilities, o.Capabilities), SystemCalls: union(n.SystemCalls, o.SystemCalls), Companions: union(n.Companions, o.Companions),
		Edits: n.Edits.join(o.Edits),
	}
}

// union returns the values of both lists, sorted, each once; nil if there are none.
func union[T cmp.Ordered](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// Equal reports whether both are equal.
func (n Needs) Equal(o Needs) bool {
	return slices.Equal(n.ReadPaths, o.ReadPaths) && slices.Equal(n.ListPaths, o.ListPaths) && slices.Equal(n.WritePaths, o.WritePaths) && slices.Equal(n.OpenDevices, o.OpenDevices) &&
		slices.Equal(n.Capabilities, o.Capabilities) && slices.Equal(n.SystemCalls, o.SystemCalls) && slices.Equal(n.Companions, o.Companions) &&
		n.Edits.equal(o.Edits)
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
func (s EditScope) Empty() bool { return s.equal(EditScope{}) }

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

func (s EditScope) equal(o EditScope) bool {
	return slices.Equal(s.Devices, o.Devices) && slices.Equal(s.Mounts, o.Mounts) &&
		slices.Equal(s.ReadOnlyMounts, o.ReadOnlyMounts) && slices.Equal(s.Hooks, o.Hooks) &&
		slices.Equal(s.Env, o.Env) && slices.Equal(s.GIDs, o.GIDs) && slices.Equal(s.NetDevices, o.NetDevices)
}
