package slices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/dra/allocator"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	assignment "github.com/accelmux/accelmux/core/resource"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that for any sequence of claims, and of partitions that somebody makes and removes by hand,
// the scheduler allocates only devices that can be made, so that no counter is exceeded; and that it
// allocates each potential device that can be made.
func TestWhatTheSchedulerAllocatesCanBeMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGPUs(t)
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) { g.claim(t, g.draw(t)) },
			"end": func(t *rapid.T) {
				d := g.draw(t)
				delete(g.claimed, d.GetId())
				if d.GetMadeFor() != "" {
					d.MadeFor, d.Potential = "", true
				}
			},
			"make by hand": func(t *rapid.T) {
				if d := g.draw(t); d.GetPotential() && g.fits(d) {
					d.Potential = false
				}
			},
			"remove by hand": func(t *rapid.T) {
				if d := g.draw(t); d.GetMadeFor() == "" && !g.claimed[d.GetId()] {
					d.Potential = true
				}
			},
			"break or mend": func(t *rapid.T) {
				id := g.draw(t).GetId()
				g.broken[id] = !g.broken[id]
			},
		})
	})
}

// gpus is hardware with partitions, and a scheduler.
type gpus struct {
	inventory *backendv1.Inventory
	store     *inventory.Store
	features  pool.Features
	claimed   map[string]bool
	broken    map[string]bool
}

func newGPUs(t *rapid.T) *gpus {
	g := &gpus{
		inventory: &backendv1.Inventory{}, store: inventory.NewStore(nil), features: pool.Features{Counters: true, Taints: rapid.Bool().Draw(t, "taints")},
		claimed: map[string]bool{}, broken: map[string]bool{},
	}
	g.store.Describe("acme", inventory.Description{
		Name: "acme", Classes: []string{"gpu"}, Prepare: true, Release: true,
	})
	for i := range rapid.IntRange(1, 10).Draw(t, "sets") { // more than the 8 of a slice
		g.inventory.CounterSets = append(g.inventory.CounterSets, &backendv1.CounterSet{Name: fmt.Sprintf("gpu-%d", i), Counters: map[string]int64{"memory": 8, "compute": 7}})
	}
	for i := range rapid.IntRange(1, 12).Draw(t, "devices") {
		d := &backendv1.Device{
			Id: fmt.Sprintf("d%d", i), Class: "gpu", Potential: true, Health: &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY},
			Hooks: []backendv1.Hook{backendv1.Hook_HOOK_PREPARE, backendv1.Hook_HOOK_RELEASE},
		}
		for _, set := range rapid.SliceOfNDistinct(rapid.SampledFrom(g.inventory.GetCounterSets()), 1, min(2, len(g.inventory.GetCounterSets())), (*backendv1.CounterSet).GetName).Draw(t, "of") {
			d.Consumes = append(d.Consumes, &backendv1.CounterConsumption{CounterSet: set.GetName(), Counters: map[string]int64{
				"memory": rapid.Int64Range(1, 8).Draw(t, "memory"), "compute": rapid.Int64Range(1, 7).Draw(t, "compute"),
			}})
		}
		g.inventory.Devices = append(g.inventory.Devices, d)
	}
	return g
}

func (g *gpus) draw(t *rapid.T) *backendv1.Device {
	return rapid.SampledFrom(g.inventory.GetDevices()).Draw(t, "device")
}

// fits reports whether a device can be made beside those that exist.
func (g *gpus) fits(d *backendv1.Device) bool {
	left := map[string]map[string]int64{}
	for _, set := range g.inventory.GetCounterSets() {
		left[set.GetName()] = maps.Clone(set.GetCounters())
	}
	for _, other := range g.inventory.GetDevices() {
		if other.GetPotential() && other != d {
			continue
		}
		for _, c := range other.GetConsumes() {
			for name, amount := range c.GetCounters() {
				if left[c.GetCounterSet()][name] -= amount; left[c.GetCounterSet()][name] < 0 {
					return false
				}
			}
		}
	}
	return true
}

// claim has a claim for a device allocated and prepared.
func (g *gpus) claim(t *rapid.T, d *backendv1.Device) {
	free := !g.claimed[d.GetId()] && !g.broken[d.GetId()]
	allocated := g.allocate(t, d.GetId())
	switch {
	case allocated && !free:
		t.Fatalf("%s is allocated though it is claimed: %v, or broken: %v", d.GetId(), g.claimed[d.GetId()], g.broken[d.GetId()])
	case allocated && d.GetPotential() && !g.fits(d):
		t.Fatalf("%s is allocated, and does not fit into its counter sets", d.GetId())
	case !allocated && free && (!d.GetPotential() || g.fits(d)):
		t.Fatalf("%s is not allocated, though it exists or can be made", d.GetId())
	}
	if !allocated {
		return
	}
	g.claimed[d.GetId()] = true
	if d.GetPotential() {
		d.Potential, d.MadeFor = false, "claim"
	}
}

// allocate reports whether the scheduler allocates the device to a claim.
func (g *gpus) allocate(t *rapid.T, id string) bool {
	n := allocator.Node{Name: "node", Slices: g.published(t), Classes: map[string]*resourceapi.DeviceClass{"gpu": {}}}
	for id, is := range g.claimed {
		if is {
			n.Allocated = append(n.Allocated, structured.MakeDeviceID(driver, "node", id))
		}
	}
	results, err := n.Allocate(context.WithoutCancel(t.Context()), allocator.Claim{Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["accelmux.io"].id == %q`, id)}}},
		}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return len(results) == 1
}

// published returns the slices of what the hardware has.
func (g *gpus) published(t *rapid.T) []*resourceapi.ResourceSlice {
	g.inventory.Generation++
	encoded, err := inventory.EncodeReport(g.inventory)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.store.Report("acme", encoded); err != nil {
		t.Fatal(err)
	}
	b := g.store.Snapshot().Backends[0]
	fitting := slices.DeleteFunc(slices.Clone(g.inventory.GetDevices()), func(d *backendv1.Device) bool { return d.GetPotential() })
	for _, d := range fitting {
		if !slices.ContainsFunc(b.Devices, func(listed *inventory.Device) bool { return listed.ID == d.GetId() }) {
			t.Fatalf("%s exists and is left out: %v", d.GetId(), b.Problems)
		}
	}
	o := pool.Options{Backend: b, Features: g.features}
	for _, d := range b.Devices {
		verdict := health.Verdict{Healthy: true}
		if g.broken[d.ID] {
			verdict = health.Verdict{Faults: []health.Fault{{Code: "xid-79"}}}
		}
		o.Devices = append(o.Devices, assignment.Device{Device: d, Verdict: verdict})
	}
	return sliced(pool.New(o))
}
