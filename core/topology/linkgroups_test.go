package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/test/machines"
)

// Verifies the groups of machines that exist.
func TestLinkGroups(t *testing.T) {
	degraded := switched(8, 12) // of gpu03 a lane is down
	for i, u := range degraded {
		for j := range u.Device.Links {
			if l := &u.Device.Links[j]; i == 3 || l.Peer == "gpu03" {
				l.Count--
			}
		}
	}
	for name, tc := range map[string]struct {
		units []Unit
		want  [3]string // of the sizes 2, 4 and 8
	}{
		"DGX-1: pairs of two lanes, quads":          {dgx1(), [3]string{"0,3 1,2 4,7 5,6", "0-3 4-7", "0-7"}},
		"switched: any devices":                     {switched(8, 12), [3]string{"0-7", "0-7", "0-7"}},
		"switched: the paths make no difference":    {whole(machines.WithPaths(machines.Switched(8, 12), machines.PCIe(8))), [3]string{"0-7", "0-7", "0-7"}},
		"switched: a lane is down":                  {degraded, [3]string{"0-2,4-7", "0-2,4-7", "0-7"}},
		"PCIe":                                      {pcieOnly(8), [3]string{"0,1 2,3 4,5 6,7", "0-3 4-7", "0-7"}},
		"PCIe: an odd number at a switch":           {pcieOnly(12), [3]string{"0-2 3-5 6-8 9-11", "0-5 6-11", "0-11"}},
		"hives":                                     {mi210(), [3]string{"0-3 4-7", "0-3 4-7", "0-7"}},
		"partitions: those of a GPU":                {split(switched(2, 12), 4), [3]string{"0-p0,0-p1,0-p2,0-p3 1-p0,1-p1,1-p2,1-p3", "0-p0,0-p1,0-p2,0-p3 1-p0,1-p1,1-p2,1-p3", "0-p0,0-p1,0-p2,0-p3,1-p0,1-p1,1-p2,1-p3"}},
		"torus: there are no four linked devices":   {torus()[:8], [3]string{"0,1 2,3 4,5 6,7", "", ""}},
		"no links":                                  {machine(8, func(int, int) inventory.Link { return inventory.Link{} }), [3]string{}},
		"a pair without links to the other devices": {append(switched(2, 4), dgx1()[2]), [3]string{"0,1", "", ""}},
	} {
		for i, size := range GroupSizes() {
			if got := written(Prepare(tc.units, Options{}).LinkGroups(size)); got != tc.want[i] {
				t.Errorf("%s: groups of %d are %q, want %q", name, size, got, tc.want[i])
			}
		}
	}
	for devices, want := range map[string]int64{"gpu00 gpu03": 200, "gpu00 gpu03 gpu05": 10, "gpu00": 0, "gpu00 gpu99": 0} {
		if got := Prepare(dgx1(), Options{}).Level(strings.Fields(devices)); got != want {
			t.Errorf("the level of %s is %d, want %d", devices, got, want)
		}
	}
}

// written returns groups as "0-3 4,6", in the order of their devices.
func written(groups []LinkGroup) string {
	var texts []string
	for _, g := range groups {
		var names []string
		for i := 0; i < len(g.Devices); i++ {
			number, last := 0, i
			if n, _ := fmt.Sscanf(g.Devices[i], "gpu%d", &number); n != 1 || strings.Contains(g.Devices[i], "-") {
				names = append(names, strings.TrimPrefix(g.Devices[i], "gpu0"))
				continue
			}
			for last+1 < len(g.Devices) && g.Devices[last+1] == fmt.Sprintf("gpu%02d", number+last+1-i) {
				last++
			}
			if last-i < 2 {
				names = append(names, fmt.Sprint(number))
				continue
			}
			names = append(names, fmt.Sprintf("%d-%d", number, number+last-i))
			i = last
		}
		texts = append(texts, strings.Join(names, ","))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// Verifies on any graph that groups have size devices or more, which are linked to each other at the
// group's level; that no device is in two groups; and that neither health nor the order of the units
// makes a difference.
func TestLinkGroupsAreFullyLinked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := drawUnits(t, 12)
		top, size := Prepare(units, Options{}), rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "size")
		groups, levels := top.LinkGroups(size), levelsOf(units)
		level := map[string]int64{} // of the device's group
		for _, g := range groups {
			if len(g.Devices) < size {
				t.Fatalf("a group of %d is %v", size, g.Devices)
			}
			if at := top.Level(g.Devices); at < g.Level && !top.replicas { // whose units have other IDs
				t.Fatalf("the level of %+v is %d", g, at)
			}
			for i, a := range g.Devices {
				if level[a] != 0 {
					t.Fatalf("%s is in two groups of %+v", a, groups)
				}
				level[a] = g.Level
				for _, b := range g.Devices[:i] {
					if levels[[2]string{a, b}] < g.Level {
						t.Fatalf("%s and %s of %+v have a link of %d", a, b, g, levels[[2]string{a, b}])
					}
				}
			}
		}
		slices.Reverse(units)
		for i := range units {
			units[i].Healthy = !units[i].Healthy
		}
		if diff := cmp.Diff(groups, Prepare(units, Options{}).LinkGroups(size)); diff != "" {
			t.Fatalf("in another order, with other health:\n%s", diff)
		}
	})
}

// levelsOf returns the level of each pair of linked devices of one backend, by the definition.
func levelsOf(units []Unit) map[[2]string]int64 {
	one, both := map[[2]string]int64{}, map[[2]string]int64{}
	backends := map[string]string{}
	for _, u := range units {
		backends[u.Device.ID] = u.Device.Backend
	}
	for _, u := range units {
		for _, l := range u.Device.Links {
			if pair := [2]string{u.Device.ID, l.Peer}; l.Peer != u.Device.ID && backends[l.Peer] == u.Device.Backend {
				one[pair] = max(one[pair], Value(l))
			}
		}
	}
	for pair, level := range one {
		both[pair] = min(level, one[[2]string{pair[1], pair[0]}])
	}
	return both
}

// Verifies that devices that are in one group stay in one group when another device is gone or has lost
// its links, unless it was in their group and too few are left: on existing machines and in any
// hierarchy.
func TestLinkGroupsSurviveTheLossOfADevice(t *testing.T) {
	machines := map[string][]Unit{
		"DGX-1": dgx1(), "switched": switched(8, 12), "PCIe": pcieOnly(12), "MI210": mi210(), "MI300X": mi300x(), "none": nil,
	}
	rapid.Check(t, func(t *rapid.T) {
		units := machines[rapid.SampledFrom([]string{"DGX-1", "switched", "PCIe", "MI210", "MI300X", "none"}).Draw(t, "machine")]
		if units == nil {
			units = drawHierarchy(t)
		}
		lost := rapid.SampledFrom(units).Draw(t, "lost").Device.ID
		var left []Unit
		gone := rapid.Bool().Draw(t, "gone")
		for _, u := range units {
			d := *u.Device
			d.Links = slices.DeleteFunc(slices.Clone(d.Links), func(l inventory.Link) bool { return l.Peer == lost })
			if u.Device = &d; d.ID != lost || !gone {
				left = append(left, u)
			}
		}
		before, after := Prepare(units, Options{}), Prepare(left, Options{})
		for _, size := range GroupSizes() {
			now := map[string]int{}
			for i, g := range after.LinkGroups(size) {
				for _, id := range g.Devices {
					now[id] = i + 1
				}
			}
			for _, g := range before.LinkGroups(size) {
				others := slices.DeleteFunc(slices.Clone(g.Devices), func(id string) bool { return id == lost })
				for _, id := range others {
					if len(others) >= size && (now[id] == 0 || now[id] != now[others[0]]) {
						t.Fatalf("without %s the group of %d %v is divided: %v", lost, size, g.Devices, now)
					}
				}
			}
		}
	})
}

// drawHierarchy makes a machine in which devices have better links the more of their way from the
// root is the same.
func drawHierarchy(t *rapid.T) []Unit {
	kinds := []inventory.Link{{}, {Kind: "cross_numa"}, {Kind: "pcie_switch"}, {Kind: "nvlink", Count: 2}}
	n := rapid.IntRange(1, 40).Draw(t, "devices")
	ways := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 2), 3, 3), n, n).Draw(t, "ways")
	return machine(n, func(a, b int) inventory.Link {
		same := 0
		for same < 3 && ways[a][same] == ways[b][same] {
			same++
		}
		return kinds[same]
	})
}
