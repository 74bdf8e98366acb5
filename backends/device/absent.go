package device

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

// absent returns why units of the kind that were known are not listed though their hardware is there, by ID, as far as
// the kernel's files show it.
func (s source) absent(listed, known []engine.Unit) map[string]*sdk.Health {
	is := map[string]bool{}
	for _, u := range listed {
		is[u.ID] = true
	}
	all := map[string]*sdk.Health{}
	for _, u := range known {
		if is[u.ID] || len(u.Devices) == 0 {
			continue
		}
		r := readingIn(u.Devices[0])
		if len(r.objects) == 0 || r.kind.Name != s.kind.Name {
			continue
		}
		o := r.objects[0].Object
		why := s.inOtherNamespace(o.Name, o.Dir)
		if o.Hardware().USB {
			why = unauthorized(o)
		}
		if why != nil {
			all[u.ID] = why
		}
	}
	return all
}

// inOtherNamespace returns the fault of an HCA that is in another network namespace (rdma system set netns exclusive): the directory of its
// class below its hardware stays, and has none (ns_type of struct class in the kernel).
func (s source) inOtherNamespace(name, dir string) *sdk.Health {
	if s.kind.Match.Class != "infiniband" {
		return nil
	}
	if entries, err := os.ReadDir(filepath.Join(s.cfg.host.Sysfs, filepath.Dir(dir))); err != nil || len(entries) > 0 {
		return nil
	}
	h := sdk.Fault("in-other-namespace", sdk.RecoverySelf, fmt.Sprintf(
		"%s is in another network namespace, such as that of a pod, and is back on the node when that ends: no other container can use it (see rdma dev show)", name))
	h.Reach = sdk.ReachNewHolders
	return h
}
