package inventory

import (
	"cmp"
	"slices"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// ScopeOf returns what edits contain, each path and name as it is.
func ScopeOf(w *backendv1.ContainerEdits) (s EditScope) {
	for _, n := range w.GetDeviceNodes() {
		s.Devices = append(s.Devices, cmp.Or(n.GetHostPath(), n.GetPath()))
	}
	for _, m := range w.GetMounts() {
		if m.GetWritable() {
			s.Mounts = append(s.Mounts, m.GetHostPath())
		} else {
			s.ReadOnlyMounts = append(s.ReadOnlyMounts, m.GetHostPath())
		}
	}
	for name := range w.GetEnv() {
		s.Env = append(s.Env, name)
	}
	for _, h := range w.GetHooks() {
		s.Hooks = append(s.Hooks, h.GetPath())
	}
	for _, n := range w.GetNetDevices() {
		s.NetDevices = append(s.NetDevices, n.GetHostName())
	}
	s.GIDs = w.GetAdditionalGids()
	return s.Join(EditScope{})
}

// Join returns the entries of both, sorted, each once.
func (s EditScope) Join(o EditScope) EditScope { return s.join(o) }

// Unused returns the entries that stand for none of those used, which are no patterns.
func (s EditScope) Unused(used EditScope) EditScope {
	left := func(k *editKind, entries []string) []string {
		names := k.entries(used)
		return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return k.match(entry, name) })
		})
	}
	return EditScope{
		Devices: left(&nodeEdit, s.Devices), Mounts: left(&readEdit, s.Mounts), ReadOnlyMounts: left(&readEdit, s.ReadOnlyMounts), Hooks: left(&hookEdit, s.Hooks),
		Env: left(&variedEdit, s.Env), NetDevices: left(&netEdit, s.NetDevices),
		GIDs: slices.DeleteFunc(slices.Clone(s.GIDs), func(gid uint32) bool { return slices.Contains(used.GIDs, gid) }),
	}
}
