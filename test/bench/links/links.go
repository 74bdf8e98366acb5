// Package links measures how good the links of the devices are that the scheduler's own allocator gives
// to claims: from slices in an arbitrary order, in the agent's order, and with a constraint on the link
// group.
package links

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/accelmux/accelmux/core/dra/allocator"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/machines"
)

// Section is the section links.
var Section = rig.Section{
	Name: "links",
	About: `Claims for 2, 4 and 8 devices of nodes of which any number of devices, chosen at random, is allocated: how many
of them get devices with the best links that are free, by the allocator of the scheduler (k8s.io/dynamic-resource-allocation).
The weakest link of the devices counts, by its lanes, its distance or its path. The floor is devices in an arbitrary
order. For link groups, claims that fit but have no group with enough free devices are counted as pending, not as given.
"Reordered" is slices that are written again after each allocation.`,
	Measure: measure,
}

const (
	driver, node, class = "bench.accelmux.io", "node", "gpu"
	trials              = 2000
)

// ways are the ways to choose.
const (
	arbitrary = iota
	ordered
	reordered
	grouped
	ways
)

func measure(setup *rig.Setup) (figures []rig.Figure, err error) {
	for _, m := range []struct {
		name    string
		devices []*inventory.Device
	}{
		{"DGX-1, V100", machines.DGX1()},
		{"DGX A100", machines.WithPaths(machines.Switched(8, 12), machines.PCIe(8))},
		{"PCIe, 8 GPUs", machines.PCIe(8)},
		{"PCIe, 16 GPUs", machines.PCIe(16)},
		{"MI300X CPX, 64 partitions", machines.MI300X()},
	} {
		for _, size := range topology.GroupSizes() {
			if size == len(m.devices) {
				continue // there is no choice
			}
			t, err := count(m.devices, size, setup.Samples(trials))
			if err != nil {
				return nil, err
			}
			what := fmt.Sprintf("%s, %d devices: ", m.name, size)
			share := func(way int) float64 { return 100 * float64(t.best[way]) / float64(max(1, t.given[way])) }
			for way, name := range []string{ordered: "in our order", reordered: "reordered", grouped: "link group"} {
				if name == "" {
					continue
				}
				f := rig.Figure{What: what + name, Value: share(way), Unit: "%", Floor: share(arbitrary), FloorIs: "an arbitrary order", Samples: t.given[way]}
				if pending := t.given[arbitrary] - t.given[way]; pending > 0 {
					f.Note = fmt.Sprintf("%.1f %% of the claims are pending", 100*float64(pending)/float64(t.given[arbitrary]))
				}
				figures = append(figures, f)
			}
		}
	}
	return figures, nil
}

// tally counts the claims that got devices, and those that got the best.
type tally struct{ given, best [ways]int }

// count has claims of a size allocated on nodes with the devices.
func count(devices []*inventory.Device, size, trials int) (t tally, err error) {
	random := rand.New(rand.NewPCG(1, uint64(size)))
	whole := topology.Prepare(units(devices), topology.Options{WeakestFirst: true})
	groups := pool.NewLinkGroups(whole)
	inOrder := slicesOf(devices, whole.Order(), groups)
	for range trials {
		used := random.IntN(len(devices) - size + 1)
		shuffled := slices.Clone(devices)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		free := shuffled[used:]
		best := whole.Level(whole.Choose(topology.Request{Available: ids(free), Size: size}).IDs)
		var orders [ways][]*resourceapi.ResourceSlice
		orders[ordered], orders[grouped] = inOrder, inOrder
		orders[reordered] = slicesOf(devices, append(topology.Prepare(units(free), topology.Options{}).Order(), ids(shuffled[:used])...), groups)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		orders[arbitrary] = slicesOf(devices, ids(shuffled), groups)
		for way := range ways {
			given, err := allocate(orders[way], free, devices, size, way == grouped)
			if err != nil {
				return t, err
			}
			if given == nil {
				continue
			}
			t.given[way]++
			if whole.Level(given) >= best {
				t.best[way]++
			}
		}
	}
	return t, nil
}

// allocate returns the IDs of the devices that a claim gets.
func allocate(published []*resourceapi.ResourceSlice, free, all []*inventory.Device, size int, grouped bool) (given []string, err error) {
	n := allocator.Node{Name: node, Slices: published, Classes: map[string]*resourceapi.DeviceClass{class: {}}}
	byName := map[string]string{}
	for _, d := range all {
		byName[d.Name()] = d.ID
		if !slices.Contains(free, d) {
			n.Allocated = append(n.Allocated, structured.MakeDeviceID(driver, node, d.Name()))
		}
	}
	spec := resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(size),
	}}}}
	if grouped {
		spec.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName(pool.LinkGroupAttribute(size)))}}
	}
	results, err := n.Allocate(context.Background(), allocator.Claim{Spec: resourceapi.ResourceClaimSpec{Devices: spec}})
	for _, r := range results {
		given = append(given, byName[r.Device])
	}
	return given, err
}

// slicesOf returns the slices with the devices in an order.
func slicesOf(devices []*inventory.Device, order []string, groups map[string]pool.LinkGroups) []*resourceapi.ResourceSlice {
	o := pool.Options{Backend: &inventory.Backend{Name: "test"}, LinkGroups: groups, Features: pool.Features{Taints: true}}
	for _, id := range order {
		i := slices.IndexFunc(devices, func(d *inventory.Device) bool { return d.ID == id })
		o.Devices = append(o.Devices, resource.Device{Device: devices[i], Verdict: health.Verdict{Healthy: true}})
	}
	return pool.New(o).Objects(driver, node)
}

func units(devices []*inventory.Device) (all []topology.Unit) {
	for _, d := range devices {
		all = append(all, topology.Unit{ID: d.ID, Device: d, Healthy: true})
	}
	return all
}

func ids(devices []*inventory.Device) (all []string) {
	for _, d := range devices {
		all = append(all, d.ID)
	}
	return all
}
