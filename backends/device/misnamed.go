package device

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
)

// misnamed returns a problem for each network interface that is on the node under the name that it
// had in a container: the kernel moved it back when the pod's namespace ended, and the container's
// hook did not run. Its alias ends in accelmux:NAME: and process numbers (cmd/accelmux-net-hook/mark.go).
func (s source) misnamed() (problems []engine.Problem) {
	if len(s.kind.NetDevices) == 0 {
		return nil
	}
	aliases, _ := filepath.Glob(filepath.Join(s.cfg.host.Sysfs, "class/net/*/ifalias")) // the pattern is right
	for _, file := range aliases {
		text, _ := os.ReadFile(file) // it may be gone
		words := strings.Fields(string(text))
		if len(words) == 0 {
			continue
		}
		mark, marked := strings.CutPrefix(words[len(words)-1], "accelmux:")
		name, _, _ := strings.Cut(mark, ":")
		if is := filepath.Base(filepath.Dir(file)); marked && name != is && s.selects(name) {
			problems = append(problems, engine.Problem{Err: s.wrong(fmt.Errorf("the network interface %q is %q, which the kernel moved back "+
				"from a pod that ended without its containers' hooks: set it down and rename it (ip link set dev NAME down, name %q)", is, name, name))})
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
