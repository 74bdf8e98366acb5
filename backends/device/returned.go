package device

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

// The kernel moves an interface of hardware back to the node when the pod's namespace ends and no
// container's hook ran: down, without its addresses, and under the name that it had there
// (default_device_exit_net in net/core/dev.c). It keeps its alias, which ends in accelmux:NAME: and
// process numbers (cmd/accelmux-net-hook/mark.go); a hook that moves an interface back takes that away.

// nameBefore returns the name that an interface had on the node before it was moved into a container, by
// its alias; "" for one that the kernel did not move back.
func nameBefore(alias string) string {
	words := strings.Fields(alias)
	if len(words) == 0 {
		return ""
	}
	mark, marked := strings.CutPrefix(words[len(words)-1], "accelmux:")
	if !marked {
		return ""
	}
	name, _, _ := strings.Cut(mark, ":")
	return name
}

// returned returns the fault of an interface that the kernel moved back, and that is still down; nil
// if there is none.
func returned(o *match.Object) *sdk.Health {
	const up = 1 // IFF_UP of include/uapi/linux/if.h
	alias, err := o.Text("ifalias")
	if err != nil || nameBefore(alias) == "" {
		return nil
	}
	if flags, err := o.Uint("flags"); err != nil || flags&up != 0 {
		return nil
	}
	return sdk.Fault("interface-down", sdk.RecoverySelf, fmt.Sprintf("%s is down and has no addresses, as its pod ended without the hook and the kernel moved it back: "+
		"configure it as before and set it up (ip link set dev %[1]s up); if it is to stay down, remove the word accelmux:... from its alias", o.Name))
}

// misnamed returns a problem for each network interface that is on the node under the name that it
// had in a container.
func (s source) misnamed() (problems []engine.Problem) {
	if len(s.kind.NetDevices) == 0 {
		return nil
	}
	aliases, _ := filepath.Glob(filepath.Join(s.cfg.host.Sysfs, "class/net/*/ifalias")) // the pattern is right
	for _, file := range aliases {
		text, _ := os.ReadFile(file) // it may be gone
		name := nameBefore(string(text))
		if is := filepath.Base(filepath.Dir(file)); name != "" && name != is && s.selects(name) {
			problems = append(problems, engine.Problem{Err: s.wrong(fmt.Errorf("the network interface %q has the name %q, as its pod ended without the hook and the kernel moved it back: "+
				"set it down and rename it (ip link set dev NAME down, then ip link set dev NAME name %q)", name, is, name))})
		}
	}
	return problems
}

// selects reports whether the kind is for interfaces of this name.
func (s source) selects(name string) bool {
	return len(s.kind.Match.Names) == 0 || slices.ContainsFunc(s.kind.Match.Names, func(pattern string) bool {
		is, _ := path.Match(pattern, name) // the patterns were checked
		return is
	})
}
