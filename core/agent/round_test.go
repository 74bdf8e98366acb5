package agent

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// BenchmarkRound measures what one device of many that fails or recovers costs, stage
// by stage, from its snapshot on to the table that the device plugin gets.
func BenchmarkRound(b *testing.B) {
	for _, devices := range []int{1000, 4000} {
		for _, holds := range []int{0, 8} {
			b.Run(fmt.Sprintf("%d devices, %d held", devices, holds), func(b *testing.B) { benchmarkRound(b, devices, holds) })
		}
	}
}

func benchmarkRound(b *testing.B, devices, holds int) {
	p := manyPlan(b)
	judge := newJudge(b)
	store, err := cdi.Open(cdi.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	judge.SetPolicies(p.policies())
	all := many(devices)
	held := map[inventory.Key][]holders.Hold{}
	for i := range holds {
		d := all.Backends[0].Devices[i*(devices/8)]
		held[d.Key] = []holders.Hold{{Key: d.Key, Resource: "example.com/gpu", Unit: d.ID, Since: time.Unix(1, 0)}}
	}
	j := journal{log: slog.New(slog.DiscardHandler)}
	var before *view
	took := map[string]time.Duration{}
	round := func() {
		at := time.Now()
		lap := func(stage string) {
			now := time.Now()
			took[stage] += now.Sub(at)
			at = now
		}
		judged := judge.Judge(all)
		lap("judge")
		snapshot := p.part(all)
		lost := gone(p, snapshot, held, before)
		table := p.mapper.Map(snapshot, verdicts{health: judged}, heldNames(p, snapshot, held))
		lap("map")
		table = withHolds(table, held, lost)
		lap("holds")
		wanted := injected(table)
		lap("injected")
		names := store.Publish(wanted, nil)
		lap("cdi")
		v := (&view{plan: p, snapshot: snapshot, health: judged, table: table, names: names, gone: lost}).indexed()
		lap("index")
		j.write(before, v)
		lap("journal")
		before = v
	}
	round()
	clear(took)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		all = flapped(all, n%devices, n%2 == 0)
		round()
	}
	for stage, d := range took {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N), "µs-"+stage)
	}
}

// manyPlan has one backend and all of its devices in one resource.
func manyPlan(tb testing.TB) *plan {
	tb.Helper()
	c, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: default\n"+
		"  backends: [{name: mock}]\n  resources: [{name: example.com/gpu}]\n"))
	if err != nil {
		tb.Fatal(err)
	}
	mapper, err := resource.Compile(&c.Profiles[0])
	if err != nil {
		tb.Fatal(err)
	}
	return &plan{profile: &c.Profiles[0], mapper: mapper}
}

// many is a snapshot of so many devices.
func many(devices int) *inventory.Snapshot {
	backend := &inventory.Backend{Name: "mock", Generation: 1, Devices: make([]*inventory.Device, devices)}
	for i := range backend.Devices {
		id := fmt.Sprintf("mock-%d", i)
		backend.Devices[i] = &inventory.Device{
			Key: inventory.Key{Backend: "mock", ID: id}, Class: "gpu", NUMANodes: []int{i % 2},
			Health: inventory.Health{State: inventory.StateHealthy},
			Edits:  inventory.Edits{DeviceNodes: []inventory.DeviceNode{{Path: "/dev/null", HostPath: "/dev/null", Permissions: "rw"}}, Env: inventory.Named(map[string]string{"MOCK": id})},
		}
	}
	return &inventory.Snapshot{Generation: 1, Backends: []*inventory.Backend{backend}}
}

// flapped is the snapshot with another health of one device.
func flapped(before *inventory.Snapshot, place int, fails bool) *inventory.Snapshot {
	backend := *before.Backends[0]
	backend.Generation++
	backend.Devices = append([]*inventory.Device(nil), backend.Devices...)
	d := *backend.Devices[place]
	d.Health = inventory.Health{State: inventory.StateHealthy, Recovered: true}
	if fails {
		d.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: inventory.RecoverySelf}
	}
	backend.Devices[place] = &d
	return &inventory.Snapshot{Generation: before.Generation + 1, Backends: []*inventory.Backend{&backend}}
}
