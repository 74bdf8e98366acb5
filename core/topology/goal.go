package topology

// usualSizes are those that pods ask for, the greatest first.
var usualSizes = [...]int{8, 4, 2}

// goal says what a good set of one size is: any two of its devices are linked with
// weight or more, which is the best that a set of this size can have on the whole
// node; and if a set can have that on one NUMA node, it has.
type goal struct {
	size    int
	weight  int64
	oneNUMA bool
}

// hierarchyGoals are the goals where the links are a hierarchy: good sets are those
// inside of one cluster. Replicas have none, as several have one device.
func (s *shape) hierarchyGoals(clusters []cluster) []goal {
	if s.replicas {
		return nil
	}
	var goals []goal
	for _, size := range usualSizes {
		weight, found := int64(0), false
		for _, c := range clusters { // from the best weight to the worst
			if len(c.devices) >= size {
				weight, found = c.weight, true
				break
			}
		}
		if !found {
			continue
		}
		g := goal{size: size, weight: weight}
		for _, c := range clusters {
			g.oneNUMA = g.oneNUMA || c.weight >= weight && s.onOneNode(c.devices, size)
		}
		goals = append(goals, g)
	}
	return goals
}

// onOneNode reports whether size of the devices are on one and the same NUMA node
// alone.
func (s *shape) onOneNode(devices []int32, size int) bool {
	if len(devices) < size {
		return false
	}
	counts := make([]int, len(s.numaSets))
	for _, d := range devices {
		if set := s.numa[d]; set >= 0 && len(s.numaSets[set]) == 1 {
			if counts[set]++; counts[set] >= size {
				return true
			}
		}
	}
	return false
}
