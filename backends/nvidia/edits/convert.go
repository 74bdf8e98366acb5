package edits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// places are the two directories in which nvcdi searches.
type places struct{ root, dev place }

// convert turns edits of CDI into the contract's, with the host's paths. It drops numbers
// and modes of nodes, which the runtime reads from the node. It leaves out a file that a
// link leads out of the driver root, and calls omit with the reason.
func (p places) convert(e *specs.ContainerEdits, omit func(string)) (*sdk.Edits, error) {
	out := &sdk.Edits{AdditionalGids: slices.Clone(e.AdditionalGIDs)}
	for _, text := range e.Env {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("environment variable %q has no value", text)
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[name] = value
	}
	for _, d := range e.DeviceNodes {
		here := d.HostPath
		if here == "" {
			here = d.Path
		}
		host, err := p.dev.toHost(here)
		if err != nil {
			return nil, fmt.Errorf("device node %w", err)
		}
		// nvcdi sets "rwm"; no container needs to make nodes.
		out.DeviceNodes = append(out.DeviceNodes, node(d.Path, host))
	}
	for _, m := range e.Mounts {
		host, err := p.root.toHost(m.HostPath)
		if err != nil {
			omit(err.Error() + "; containers come without it")
			continue
		}
		// A container without libcuda.so cannot use the GPU; another missing file costs a feature.
		w := &sdk.Mount{HostPath: host, ContainerPath: m.ContainerPath, Writable: true, Optional: !isDriverLibrary(m.ContainerPath)}
		for _, o := range m.Options {
			switch o {
			case "ro":
				w.Writable = false
			case "rw":
			default:
				w.Options = append(w.Options, o)
			}
		}
		out.Mounts = append(out.Mounts, w)
	}
	for _, h := range e.Hooks {
		out.Hooks = append(out.Hooks, &backendv1.OciHook{
			HookName: h.HookName, Path: h.Path, Args: p.arguments(h.Args), Env: slices.Clone(h.Env),
		})
	}
	return out, nil
}

// arguments converts the arguments of a hook, which runs on the host: --driver-root gets
// the host's path, and the path of a link, which nvcdi takes from the node's, the
// container's.
func (p places) arguments(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if i > 0 && out[i-1] == "--driver-root" && arg == p.root.here {
			out[i] = p.root.host
		}
		target, link, ok := strings.Cut(arg, "::")
		if rest, inside := below(p.dev.here, link); ok && inside {
			out[i] = target + "::" + rest
		}
	}
	return out
}

// merge combines edits. Of variables, nodes or mounts with the same name or path in
// the container the first counts; equal hooks are stored once. The result shares
// parts with its arguments, so it must not be changed.
func merge(parts ...*sdk.Edits) *sdk.Edits {
	out := &sdk.Edits{Env: map[string]string{}}
	nodes, mounts, hooks := map[string]bool{}, map[string]bool{}, map[string]bool{}
	gids := map[uint32]bool{}
	first := func(seen map[string]bool, name string) bool {
		old := seen[name]
		seen[name] = true
		return !old
	}
	for _, p := range parts {
		for name, value := range p.GetEnv() {
			if _, set := out.Env[name]; set {
				continue
			}
			out.Env[name] = value
			if separator, joined := p.GetEnvSeparators()[name]; joined {
				sdk.JoinedEnv(out, name, value, separator)
			}
		}
		for _, d := range p.GetDeviceNodes() {
			if first(nodes, d.GetPath()) {
				out.DeviceNodes = append(out.DeviceNodes, d)
			}
		}
		for _, m := range p.GetMounts() {
			if first(mounts, m.GetContainerPath()) {
				out.Mounts = append(out.Mounts, m)
			}
		}
		for _, h := range p.GetHooks() {
			if first(hooks, h.GetHookName()+"\x00"+h.GetPath()+"\x00"+strings.Join(h.GetArgs(), "\x00")) {
				out.Hooks = append(out.Hooks, h)
			}
		}
		for _, id := range p.GetAdditionalGids() {
			if id != 0 {
				gids[id] = true
			}
		}
	}
	out.AdditionalGids = slices.Sorted(maps.Keys(gids))
	return out
}
