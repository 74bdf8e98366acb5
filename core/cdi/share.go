package cdi

import (
	"reflect"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// Variables, mounts and hooks that all devices of a file have are in the spec's own edits.
// Device nodes and groups stay with the devices, which need edits of their own.
//
// The edits of a device name are the spec's own and the device's together. If a definition
// that is kept for a container lacks an edit, that edit is no longer shared, so no name
// changes its meaning. compose reverses without.

// shared returns the variables and mounts that both have, and the hooks with which both
// begin: hooks run in their order.
func shared(a, b specs.ContainerEdits) specs.ContainerEdits {
	n := 0
	for n < min(len(a.Hooks), len(b.Hooks)) && reflect.DeepEqual(a.Hooks[n], b.Hooks[n]) {
		n++
	}
	return specs.ContainerEdits{Env: both(a.Env, b.Env, envName), Mounts: both(a.Mounts, b.Mounts, containerPath), Hooks: a.Hooks[:n]}
}

// shareable is the number of edits that could be shared.
func shareable(e specs.ContainerEdits) int { return len(e.Env) + len(e.Mounts) + len(e.Hooks) }

// without returns the edits of a device without those that are shared.
func without(e, common specs.ContainerEdits) specs.ContainerEdits {
	e.Env, e.Mounts = less(e.Env, common.Env), less(e.Mounts, common.Mounts)
	e.Hooks = e.Hooks[len(common.Hooks):]
	return e
}

// both returns the values that are in both lists, which are sorted by id.
func both[T any](a, b []T, id func(T) string) (out []T) {
	for len(a) > 0 && len(b) > 0 {
		switch order := strings.Compare(id(a[0]), id(b[0])); {
		case order < 0:
			a = a[1:]
		case order > 0:
			b = b[1:]
		default:
			if reflect.DeepEqual(a[0], b[0]) {
				out = append(out, a[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return out
}

// less returns the list without some of its values, which are in the same order.
func less[T any](list, some []T) (out []T) {
	for _, v := range list {
		if len(some) > 0 && reflect.DeepEqual(v, some[0]) {
			some = some[1:]
			continue
		}
		out = append(out, v)
	}
	return out
}
