package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the devices that were removed while they are held are known, as they were
// last reported, whatever fails, comes, goes and is held meanwhile.
func TestGone(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := manyPlan(t)
		judge := newJudge(t)
		judge.SetPolicies(p.policies())
		all := many(6)
		held := map[inventory.Key][]holders.Hold{}
		var before *view
		for step := range 40 {
			judged := judge.Judge(all)
			lost := gone(p, all, held, before)
			if diff := cmp.Diff(goneSlowly(all, held, before), lost); diff != "" {
				t.Fatalf("seed %d, step %d: devices that are gone (-want +got):\n%s", seed, step, diff)
			}
			mapped := p.mapper.Map(all, verdicts{health: judged}, heldNames(p, all, held))
			table := withHolds(mapped, held, lost)
			before = (&view{plan: p, snapshot: all, health: judged, table: table, gone: lost}).indexed()
			all = afterwards(random, all, held)
		}
	}
}

func newJudge(tb testing.TB) *health.Judge {
	tb.Helper()
	judge, err := health.Open(health.Options{Path: tb.TempDir() + "/health", BootID: "boot"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := judge.Close(); err != nil {
			tb.Error(err)
		}
	})
	return judge
}

// goneSlowly is what gone is to return, device by device.
func goneSlowly(all *inventory.Snapshot, held map[inventory.Key][]holders.Hold, before *view) map[inventory.Key]*inventory.Device {
	gone := map[inventory.Key]*inventory.Device{}
	for key := range held {
		listed := slices.ContainsFunc(all.Backends[0].Devices, func(d *inventory.Device) bool { return d.Key == key })
		if d := before.lastSeen(key); d != nil && !listed {
			gone[key] = d
		}
	}
	return gone
}

// afterwards is a snapshot after another one, and held what is held then.
func afterwards(random *rand.Rand, before *inventory.Snapshot, held map[inventory.Key][]holders.Hold) *inventory.Snapshot {
	devices := before.Backends[0].Devices
	key := inventory.Key{Backend: "mock", ID: fmt.Sprintf("mock-%d", random.IntN(8))}
	switch random.IntN(8) {
	case 0:
		delete(held, key)
	case 1:
		name := []string{"example.com/gpu", "example.com/other"}[random.IntN(2)]
		held[key] = []holders.Hold{{Key: key, Resource: name, Unit: key.ID, Since: time.Unix(1, 0)}}
	case 2: // comes or goes
		next := *before.Backends[0]
		next.Generation++
		next.Devices = slices.DeleteFunc(slices.Clone(devices), func(d *inventory.Device) bool { return d.Key == key })
		if len(next.Devices) == len(devices) {
			next.Devices = append(next.Devices, many(8).Backends[0].Devices[random.IntN(8)])
			slices.SortFunc(next.Devices, func(a, b *inventory.Device) int { return int(a.ID[5]) - int(b.ID[5]) })
			next.Devices = slices.CompactFunc(next.Devices, func(a, b *inventory.Device) bool { return a.ID == b.ID })
		}
		return &inventory.Snapshot{Generation: before.Generation + 1, Backends: []*inventory.Backend{&next}}
	}
	if len(devices) == 0 {
		return before
	}
	return flapped(before, random.IntN(len(devices)), random.IntN(2) == 0)
}
