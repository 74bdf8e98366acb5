package deviceplugin

import (
	"cmp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// candidate is a unit that may be chosen.
type candidate struct {
	id     string
	device inventory.Key
	// nodes are the device's NUMA nodes; empty if unknown.
	nodes []int
}

// candidates are the healthy ones among the units with these IDs.
func (v *view) candidates(ids []string) []candidate {
	return slices.DeleteFunc(v.candidatesAnyHealth(ids), func(c candidate) bool {
		u, ok := v.units[c.id]
		return !ok || !u.healthy
	})
}

// candidatesAnyHealth keeps unknown IDs too, each as a device of its own: what
// must be included is kubelet's to say.
func (v *view) candidatesAnyHealth(ids []string) []candidate {
	out := make([]candidate, 0, len(ids))
	for _, id := range ids {
		c := candidate{id: id, device: inventory.Key{ID: id}}
		if u, ok := v.units[id]; ok {
			c.device, c.nodes = u.Device.Key, u.Device.NUMANodes
		}
		out = append(out, c)
	}
	return out
}

// prefer chooses size units from available, must among them. It depends on what
// is in its arguments, not on their order. The answer is shorter than size if
// there are not enough. In this order it wants
//
//  1. all of must;
//  2. one replica a device, if there are enough devices for that;
//  3. few NUMA nodes: those that must uses already, then the one that fits the
//     rest most closely, or if none does the largest first;
//  4. devices with the most free replicas, so that load spreads over pods;
//  5. the lowest IDs.
//
// Devices without a known NUMA node come last. The work is linear in the units,
// times the number of NUMA nodes, but for the sorting.
func prefer(available, must []candidate, size int) []string {
	if size <= 0 {
		return nil
	}
	chosen := make([]string, 0, min(size, len(available)+len(must)))
	p := pool{used: map[int]bool{}}
	taken := map[string]struct{}{}
	perDevice := map[inventory.Key]int{}
	for _, c := range sortedByID(must) {
		if _, twice := taken[c.id]; twice || len(chosen) == size {
			continue
		}
		taken[c.id] = struct{}{}
		chosen = append(chosen, c.id)
		perDevice[c.device]++
		for _, node := range c.nodes {
			p.used[node] = true
		}
	}
	p.fill(available, taken, perDevice)
	return append(chosen, p.take(size-len(chosen))...)
}

// shared is a device and its free units, sorted by ID.
type shared struct {
	device inventory.Key
	nodes  []int
	free   []string
	// held counts units of this device that are chosen already.
	held int
}

// pool is what can be chosen from.
type pool struct {
	devices []*shared
	// used are the NUMA nodes that the choice touches already.
	used map[int]bool
}

// fill groups what is available and not taken by device, sorted by ID.
func (p *pool) fill(available []candidate, taken map[string]struct{}, held map[inventory.Key]int) {
	byDevice := map[inventory.Key]*shared{}
	for _, c := range sortedByID(available) {
		if _, gone := taken[c.id]; gone {
			continue
		}
		taken[c.id] = struct{}{}
		d, ok := byDevice[c.device]
		if !ok {
			d = &shared{device: c.device, nodes: c.nodes, held: held[c.device]}
			byDevice[c.device] = d
			p.devices = append(p.devices, d)
		}
		d.free = append(d.free, c.id)
	}
	slices.SortStableFunc(p.devices, func(a, b *shared) int {
		return cmp.Compare(len(b.free), len(a.free)) // stable: then by ID
	})
}

// take chooses up to n units. While devices that are not in the choice suffice
// for n, a NUMA node counts for as many as it has of those; after that for all
// its free units.
func (p *pool) take(n int) []string {
	if n <= 0 || len(p.devices) == 0 {
		return nil
	}
	fresh := 0
	for _, d := range p.devices {
		if d.held == 0 {
			fresh++
		}
	}
	weight := func(d *shared) int { return len(d.free) }
	if fresh >= n {
		weight = func(d *shared) int {
			if d.held == 0 {
				return 1
			}
			return 0
		}
	}
	return deal(p.narrow(n, weight), n)
}

// narrow is the devices on few NUMA nodes whose weights sum up to n or more; all
// of them if they do not.
func (p *pool) narrow(n int, weight func(*shared) int) []*shared {
	var in []*shared
	have := 0
	inside := map[*shared]bool{}
	add := func(fits func(*shared) bool) {
		for _, d := range p.devices {
			if !inside[d] && fits(d) {
				inside[d] = true
				in = append(in, d)
				have += weight(d)
			}
		}
	}
	add(func(d *shared) bool { return slices.ContainsFunc(d.nodes, func(n int) bool { return p.used[n] }) })
	for have < n {
		node, ok := p.nextNode(n-have, inside, weight)
		if !ok {
			add(func(*shared) bool { return true })
			break
		}
		add(func(d *shared) bool { return slices.Contains(d.nodes, node) })
	}
	return in
}

// nextNode is the node with the least weight that is still need or more, or the
// one with the most; the lowest of equals.
func (p *pool) nextNode(need int, inside map[*shared]bool, weight func(*shared) int) (node int, ok bool) {
	weights := map[int]int{}
	for _, d := range p.devices {
		if inside[d] {
			continue
		}
		for _, node := range d.nodes {
			weights[node] += weight(d)
		}
	}
	best := 0
	for candidate, w := range weights {
		if w == 0 {
			continue
		}
		better := w > best
		if best >= need || w >= need {
			better = w >= need && (best < need || w < best)
		}
		if !ok || better || w == best && candidate < node {
			node, best, ok = candidate, w, true
		}
	}
	return node, ok
}

// deal takes n units, one of each device in turn, from those with the fewest
// chosen units first.
func deal(devices []*shared, n int) []string {
	var out []string
	for len(out) < n {
		least := -1
		for _, d := range devices {
			if len(d.free) > 0 && (least < 0 || d.held < least) {
				least = d.held
			}
		}
		if least < 0 {
			break
		}
		for _, d := range devices {
			if len(out) < n && len(d.free) > 0 && d.held == least {
				out = append(out, d.free[0])
				d.free = d.free[1:]
				d.held++
			}
		}
	}
	return out
}

func sortedByID(in []candidate) []candidate {
	return slices.SortedFunc(slices.Values(in), func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
}
