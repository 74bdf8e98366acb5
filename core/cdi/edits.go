package cdi

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"

	cdi "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// propagations are the mount options for propagation. One is always set, because runc's own
// default depends on the host.
var propagations = []string{"private", "rprivate", "shared", "rshared", "slave", "rslave", "unbindable", "runbindable"}

// toCDI converts edits. Equal edits give equal results, whatever the order in which a backend
// lists them; the order of hooks matters and stays. Variables whose values are joined are left
// out: a runtime applies the edits of one device after another, over kubelet's environment,
// and would use the last value.
func toCDI(e inventory.Edits) *specs.ContainerEdits {
	out := &specs.ContainerEdits{}
	for name, value := range e.Env.All() {
		if _, joined := e.EnvSeparators.Get(name); !joined {
			out.Env = append(out.Env, name+"="+value)
		}
	}
	for _, d := range e.DeviceNodes {
		// With the type, a runtime refuses what is another one by then. Unless the device has them, the runtime reads the numbers
		// from the node: a kernel module gets new ones when it is loaded again.
		node := &specs.DeviceNode{Path: d.Path, Type: cmp.Or(d.Type, "c"), Major: int64(d.Major), Minor: int64(d.Minor), Permissions: d.Permissions}
		// A host path needs CDI 0.5.0, so it is set only where it differs.
		if d.HostPath != d.Path {
			node.HostPath = d.HostPath
		}
		// No permissions mean "rwm" for CDI, and "rw" in the contract.
		if node.Permissions == "" {
			node.Permissions = "rw"
		}
		out.DeviceNodes = append(out.DeviceNodes, node)
	}
	slices.SortStableFunc(out.DeviceNodes, func(a, b *specs.DeviceNode) int { return strings.Compare(a.Path, b.Path) })
	for _, m := range e.Mounts {
		out.Mounts = append(out.Mounts, &specs.Mount{
			HostPath: m.HostPath, ContainerPath: m.ContainerPath, Options: mountOptions(m),
		})
	}
	slices.SortStableFunc(out.Mounts, func(a, b *specs.Mount) int { return strings.Compare(a.ContainerPath, b.ContainerPath) })
	for _, h := range e.Hooks {
		out.Hooks = append(out.Hooks, &specs.Hook{HookName: h.Name, Path: h.Path, Args: h.Args, Env: h.Env})
	}
	out.AdditionalGIDs = groups(e.AdditionalGIDs)
	return out
}

// fromCDI returns what has a path on the host: device nodes, mounts and hooks.
func fromCDI(e *specs.ContainerEdits) inventory.Edits {
	var out inventory.Edits
	for _, d := range e.DeviceNodes {
		out.DeviceNodes = append(out.DeviceNodes, inventory.DeviceNode{Path: d.Path, HostPath: cmp.Or(d.HostPath, d.Path), Permissions: d.Permissions, Type: d.Type, Major: uint32(d.Major), Minor: uint32(d.Minor)}) //nolint:gosec // the specs are ours
	}
	for _, m := range e.Mounts {
		out.Mounts = append(out.Mounts, inventory.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Writable: slices.Contains(m.Options, "rw")})
	}
	for _, h := range e.Hooks {
		out.Hooks = append(out.Hooks, inventory.OCIHook{Name: h.HookName, Path: h.Path, Args: h.Args, Env: h.Env})
	}
	return out
}

// mountOptions returns the options of a bind mount: bind or rbind (by which alone runc
// recognizes a bind mount), access, propagation, and the backend's own. Writable alone decides
// the access.
func mountOptions(m inventory.Mount) []string {
	bind, access, propagation := "rbind", "ro", "rprivate"
	if m.Writable {
		access = "rw"
	}
	var rest []string
	for _, option := range m.Options {
		switch {
		case option == "bind" || option == "rbind":
			bind = option
		case option == "ro" || option == "rw":
		case slices.Contains(propagations, option):
			propagation = option
		case !slices.Contains(rest, option):
			rest = append(rest, option)
		}
	}
	return append([]string{bind, access, propagation}, rest...)
}

// groups sorts the IDs and leaves out duplicates and 0, which CDI ignores.
func groups(ids []uint32) []uint32 {
	if len(ids) == 0 {
		return nil
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(sorted) > 0 && sorted[0] == 0 {
		sorted = sorted[1:]
	}
	if len(sorted) == 0 {
		return nil
	}
	return sorted
}

// compose adds further edits to edits. A further variable, node or mount replaces one of the
// same name or path; a hook that is there is not run twice.
func compose(base, further *specs.ContainerEdits) *specs.ContainerEdits {
	return &specs.ContainerEdits{
		Env:            override(base.Env, further.Env, envName),
		DeviceNodes:    override(base.DeviceNodes, further.DeviceNodes, func(d *specs.DeviceNode) string { return d.Path }),
		Mounts:         override(base.Mounts, further.Mounts, containerPath),
		Hooks:          slices.Concat(base.Hooks, newHooks(base.Hooks, further.Hooks)),
		AdditionalGIDs: groups(slices.Concat(base.AdditionalGIDs, further.AdditionalGIDs)),
	}
}

// newHooks returns the further hooks that base does not have.
func newHooks(base, further []*specs.Hook) []*specs.Hook {
	return slices.DeleteFunc(slices.Clone(further), func(h *specs.Hook) bool {
		return slices.ContainsFunc(base, func(b *specs.Hook) bool { return reflect.DeepEqual(b, h) })
	})
}

func envName(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}

func containerPath(m *specs.Mount) string { return m.ContainerPath }

func override[T any](base, over []T, id func(T) string) []T {
	replaced := make(map[string]bool, len(over))
	for _, v := range over {
		replaced[id(v)] = true
	}
	out := slices.DeleteFunc(slices.Clone(base), func(v T) bool { return replaced[id(v)] })
	out = append(out, over...)
	slices.SortStableFunc(out, func(a, b T) int { return strings.Compare(id(a), id(b)) })
	return out
}

var (
	errNoEdits    = errors.New("it has no container edits (yet)")
	errNoNetHook  = errors.New("its network interface cannot be moved into a container: put accelmux-net-hook into the directory of the backends' programs (--backend-dir), and restart the agent")
	errOnlyJoined = errors.New("it has only environment variables whose values are joined, which CDI cannot carry; " +
		"set injection: plain for its resource")
)

// checkEdits refuses edits because of which a runtime would refuse the whole spec file, and
// with it every other device in it.
func checkEdits(e *specs.ContainerEdits) error {
	if len(e.Env)+len(e.DeviceNodes)+len(e.Mounts)+len(e.Hooks)+len(e.AdditionalGIDs) == 0 {
		return errNoEdits
	}
	return (&cdi.ContainerEdits{ContainerEdits: e}).Validate()
}
