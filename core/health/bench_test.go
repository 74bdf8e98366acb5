package health

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func BenchmarkReportAndJudge(b *testing.B) {
	for name, bad := range map[string]int{"all healthy": 0, "all faulty": inventory.MaxDevices} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			for i := range inventory.MaxDevices {
				d := r.plug(fmt.Sprintf("GPU-%05d", i))
				if i < bad {
					d.Health = faulty("x", reset)
				}
			}
			r.report()
			r.judgeNow()
			for i := 0; b.Loop(); i++ {
				r.say("GPU-00000", []*backendv1.Health{healthy(), faulty("y", self)}[i%2])
				r.judgeNow()
			}
		})
	}
}

// BenchmarkManyFell measures one call of Judge after many devices fell and are healthy again.
func BenchmarkManyFell(b *testing.B) {
	const devices, fell = 4_000, 1_000
	before := &inventory.Backend{Name: "mock", Generation: 1}
	for i := range devices {
		before.Devices = append(before.Devices, &inventory.Device{
			Key: key(fmt.Sprintf("GPU-%05d", i)), Health: inventory.Health{State: inventory.StateHealthy},
			Edits: inventory.Edits{DeviceNodes: []inventory.DeviceNode{{Path: "/dev/null"}}},
		})
	}
	after := *before
	after.Generation, after.Devices = 3, slices.Clone(before.Devices)
	for i := range fell {
		d := *before.Devices[i]
		after.Devices[i] = &d
		after.Superseded = append(after.Superseded, inventory.Statement{
			Generation: 2, ID: d.ID, Health: inventory.Health{State: inventory.StateUnhealthy, Code: "x"},
		})
	}
	for b.Loop() {
		b.StopTimer()
		j, err := Open(Options{Path: filepath.Join(b.TempDir(), "health"), BootID: "boot"})
		if err != nil {
			b.Fatal(err)
		}
		j.Judge(&inventory.Snapshot{Generation: 1, Backends: []*inventory.Backend{before}})
		b.StartTimer()
		view := j.Judge(&inventory.Snapshot{Generation: 3, Backends: []*inventory.Backend{&after}})
		b.StopTimer()
		if len(slices.Collect(view.Faulty())) != fell {
			b.Fatal("faults are missing")
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
