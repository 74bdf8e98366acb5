package deviceplugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/resource"
)

// setup is for how many containers a backend has prepared each device of a class.
type setup struct {
	backend, class string
	containers     uint32
}

// preparedNotes reports devices that their backends have set up for another number of
// containers than the resource has replicas of each.
func preparedNotes(r *resource.Resource) []string {
	replicas, counts := max(1, r.Replicas), map[setup]int{}
	for _, d := range r.Devices {
		if d.PreparedFor != 0 && int64(d.PreparedFor) != int64(replicas) {
			counts[setup{d.Backend, d.Class, d.PreparedFor}]++
		}
	}
	if len(counts) == 0 {
		return nil
	}
	var parts []string
	for _, s := range slices.SortedFunc(maps.Keys(counts), setup.compare) {
		parts = append(parts, fmt.Sprintf("backend %s has set up %d of its devices of class %s for %d containers each", s.backend, counts[s], s.class, s.containers))
	}
	return []string{fmt.Sprintf("replicas is %d, but %s: make replicas of the resource and the backend's settings say the same",
		replicas, strings.Join(parts, ", "))}
}

func (s setup) compare(o setup) int {
	return cmp.Or(cmp.Compare(s.backend, o.backend), cmp.Compare(s.class, o.class), cmp.Compare(s.containers, o.containers))
}
