package inventory

import (
	"cmp"
	"slices"
	"strings"
)

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

// Without returns the entries that are not in allowed, nor of its patterns. Mounts of allowed are those of both sorts.
func (s EditScope) Without(allowed EditScope) EditScope {
	left := func(k *editKind, entries, allowed []string) []string {
		return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool { return slices.Contains(allowed, entry) || k.matchAny(allowed, entry) })
	}
	return EditScope{
		Devices: left(&nodeEdit, s.Devices, allowed.Devices), Mounts: left(&mountEdit, s.Mounts, allowed.Mounts), ReadOnlyMounts: left(&readEdit, s.ReadOnlyMounts, readEdit.entries(allowed)),
		Hooks: left(&hookEdit, s.Hooks, programs(allowed.Hooks)), Env: left(&variedEdit, s.Env, allowed.Env), NetDevices: left(&netEdit, s.NetDevices, allowed.NetDevices),
		GIDs: slices.DeleteFunc(slices.Clone(s.GIDs), func(gid uint32) bool { return slices.Contains(allowed.GIDs, gid) }),
	}
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

// union returns the values of both lists, sorted, each once; nil if there are none.
func union[T cmp.Ordered](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// editKind is a sort of container edit that a policy limits by lists.
type editKind struct {
	// what and field name it in messages and in the configuration's allow.
	what, field string
	use         Use
	// entries returns the list of a scope.
	entries func(EditScope) []string
	// match reports whether an entry stands for a path or name.
	match func(entry, name string) bool
}

// The kinds. A mount that the container cannot write to needs less than another one.
var (
	nodeEdit   = editKind{"device node", "devices", UseNode, func(s EditScope) []string { return s.Devices }, matchNode}
	mountEdit  = editKind{"mount", "mounts", UseMount, func(s EditScope) []string { return s.Mounts }, match}
	readEdit   = editKind{"mount", "mounts", UseReadOnlyMount, func(s EditScope) []string { return slices.Concat(s.Mounts, s.ReadOnlyMounts) }, match}
	hookEdit   = editKind{"hook program", "hooks", UseHook, func(s EditScope) []string { return programs(s.Hooks) }, match}
	variedEdit = editKind{"environment variable", "env", UseEnv, func(s EditScope) []string { return s.Env }, match}
	netEdit    = editKind{"network interface", "netDevices", "netDevices", func(s EditScope) []string { return s.NetDevices }, match}
)

// matchAny reports whether one of the entries stands for a path or name.
func (k *editKind) matchAny(entries []string, name string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool { return k.match(entry, name) })
}

// matchNode is match for device nodes: a path without wildcards stands for a node, or for all nodes below a
// directory.
func matchNode(entry, name string) bool {
	below, ok := strings.CutPrefix(name, entry)
	return match(entry, name) || ok && strings.HasPrefix(below, "/") && literal(entry) == entry
}
