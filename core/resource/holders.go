package resource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// setup is how many devices of a kind are set up for how many containers.
type setup struct {
	backend, class string
	holders        uint32
}

// HoldersNote is a sentence on devices that their backends have set up for another
// number of containers than the resource has replicas of each, or "".
func (r *Resource) HoldersNote() string {
	counts := map[setup]int{}
	var last *inventory.Device
	for i := range r.Units {
		// The replicas of a device stand together.
		d := r.Units[i].Device
		if d == last {
			continue
		}
		if last = d; d.PreparedFor != 0 && int64(d.PreparedFor) != int64(r.Replicas) {
			counts[setup{d.Backend, d.Class, d.PreparedFor}]++
		}
	}
	if len(counts) == 0 {
		return ""
	}
	var parts []string
	for _, s := range slices.SortedFunc(maps.Keys(counts), setup.compare) {
		parts = append(parts, fmt.Sprintf("backend %s has set up %d of its devices of class %s for %d containers each", s.backend, counts[s], s.class, s.holders))
	}
	return fmt.Sprintf("replicas is %d, but %s: make replicas of the resource and the backend's settings say the same",
		r.Replicas, strings.Join(parts, ", "))
}

func (s setup) compare(o setup) int {
	return cmp.Or(cmp.Compare(s.backend, o.backend), cmp.Compare(s.class, o.class), cmp.Compare(s.holders, o.holders))
}
