package inventory

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// netHooks returns the hooks that move network interfaces into a container before it starts, and
// back when it has ended. The runtimes' own way (CDI 1.1 net devices) does not do: runc does not
// start a container again in a pod that has the interface, or without a word without it before 1.3.
func (h Host) netHooks(devices []NetDevice) (hooks []OCIHook) {
	if h.NetHook == "" {
		return nil
	}
	for _, d := range devices {
		for _, step := range []struct{ hook, verb string }{{hookEnter, "enter"}, {"poststop", "leave"}} {
			hooks = append(hooks, OCIHook{Name: step.hook, Path: h.NetHook, Args: []string{path.Base(h.NetHook), step.verb, d.HostName, d.Name}})
		}
	}
	return hooks
}

const hookEnter = "createRuntime"

// Moves reports whether each network interface has its hook.
func (e Edits) Moves() bool {
	return !slices.ContainsFunc(e.NetDevices, func(d NetDevice) bool {
		return !slices.ContainsFunc(e.Hooks, func(h OCIHook) bool {
			return h.Name == hookEnter && len(h.Args) == 4 && slices.Equal(h.Args[1:], []string{"enter", d.HostName, d.Name})
		})
	})
}

// netDevices checks names as the kernel does (dev_valid_name in net/core/dev.c).
func (p *editsParser) netDevices(wire []*backendv1.NetDevice) ([]NetDevice, error) {
	if len(wire) == 0 {
		return nil, nil
	}
	devices := make([]NetDevice, 0, len(wire))
	hosts, names := map[string]bool{}, map[string]bool{}
	for _, w := range wire {
		d := NetDevice{HostName: w.GetHostName(), Name: cmp.Or(w.GetName(), w.GetHostName())}
		for _, name := range []string{d.HostName, d.Name} {
			if !interfaceName.MatchString(name) || name == "." || name == ".." {
				return nil, fmt.Errorf("%s is no name of a network interface: it has 1 to 15 characters, without white space, '/' and ':'", quote(name))
			}
		}
		if _, err := p.allowed(p.policy.checkInterface(d.HostName), false); err != nil {
			return nil, err
		}
		if hosts[d.HostName] || names[d.Name] {
			return nil, fmt.Errorf("two network interfaces are %s, or have the name %s in the container; give each its own", quote(d.HostName), quote(d.Name))
		}
		hosts[d.HostName], names[d.Name] = true, true
		devices = append(devices, d)
	}
	return devices, nil
}
