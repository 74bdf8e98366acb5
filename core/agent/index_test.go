package agent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that a view that shares the index of the one before it finds what it would
// find with one of its own, whatever became of devices and units.
func TestSharedIndex(t *testing.T) {
	shared := 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var before *view
		for step := range 50 {
			v := nextView(random, before)
			v.indexed(before)
			if before != nil && v.index == before.index {
				shared++
			}
			own := *v
			own.indexed(nil)
			compareIndexed(t, fmt.Sprintf("seed %d, step %d", seed, step), v, &own)
			before = v
		}
	}
	if shared < 100 {
		t.Errorf("only %d views shared the index of the one before", shared)
	}
}

func compareIndexed(t *testing.T, at string, got, want *view) {
	t.Helper()
	for i := range 8 {
		for _, backend := range []string{"x", "y"} {
			key := inventory.Key{Backend: backend, ID: fmt.Sprint(i)}
			if got.device(key) != want.device(key) || got.resourceOf(key) != want.resourceOf(key) ||
				got.isParent(key) != want.isParent(key) || !got.verdict(key).Same(want.verdict(key)) {
				t.Fatalf("%s: device %s is not the same", at, key)
			}
			for _, r := range []string{"gpu", "shared"} {
				for _, id := range []string{key.ID, key.ID + "::1"} {
					if got.unit(r, id) != want.unit(r, id) {
						t.Fatalf("%s: unit %s of %s is not the same", at, id, r)
					}
				}
			}
		}
	}
	if !maps.Equal(got.replicas(), want.replicas()) {
		t.Fatalf("%s: replicas are %v, want %v", at, got.replicas(), want.replicas())
	}
}

// nextView is one like that before it with something else in it.
func nextView(random *rand.Rand, before *view) *view {
	if before == nil {
		return viewWith(5, 2)
	}
	next := &view{snapshot: &inventory.Snapshot{}, health: before.health, table: &resource.Table{}}
	change := random.IntN(8)
	if change == 0 {
		return viewWith(random.IntN(7), 1+random.IntN(3))
	}
	chosen := fmt.Sprint(random.IntN(5))
	changed := map[*inventory.Device]*inventory.Device{}
	for _, b := range before.snapshot.Backends {
		backend := *b
		backend.Devices = slices.Clone(b.Devices)
		for i, d := range b.Devices {
			if d.ID != chosen {
				continue
			}
			other := *d
			switch change {
			case 1:
				other.Parent = fmt.Sprint(random.IntN(3))
			case 2:
				other.Health.Message = fmt.Sprint(random.IntN(9))
			}
			backend.Devices[i], changed[d] = &other, &other
		}
		next.snapshot.Backends = append(next.snapshot.Backends, &backend)
	}
	for _, r := range before.table.Resources {
		other := *r
		other.Units = slices.Clone(r.Units)
		for i := range other.Units {
			u := &other.Units[i]
			if d := changed[u.Device]; d != nil {
				u.Device = d
				u.Verdict = health.Verdict{Healthy: change%2 == 0}
			}
		}
		if change == 3 && len(other.Units) > 1 {
			slices.Reverse(other.Units)
		}
		next.table.Resources = append(next.table.Resources, &other)
	}
	if change == 4 && len(next.table.Resources) > 0 {
		slices.Reverse(next.table.Resources)
	}
	return next
}

// viewWith has so many devices of each of two backends, one of them with replicas.
func viewWith(devices, replicas int) *view {
	v := &view{snapshot: &inventory.Snapshot{}, health: &health.View{}, table: &resource.Table{}}
	for i, backend := range []string{"x", "y"} {
		b := &inventory.Backend{Name: backend}
		r := &resource.Resource{Name: "gpu", Replicas: 1}
		if i == 1 {
			r = &resource.Resource{Name: "shared", Replicas: replicas}
		}
		for n := range devices {
			d := &inventory.Device{Key: inventory.Key{Backend: backend, ID: fmt.Sprint(n)}}
			b.Devices = append(b.Devices, d)
			for k := range r.Replicas {
				id := d.ID
				if r.Replicas > 1 {
					id = fmt.Sprintf("%s::%d", d.ID, k)
				}
				r.Units = append(r.Units, resource.Unit{ID: id, Device: d, Verdict: health.Verdict{Healthy: true}})
			}
		}
		v.snapshot.Backends, v.table.Resources = append(v.snapshot.Backends, b), append(v.table.Resources, r)
	}
	return v
}
