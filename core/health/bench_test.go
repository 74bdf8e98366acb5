package health

import (
	"fmt"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// BenchmarkJudge measures a round in which nothing was reported, on the most devices that a
// backend may list: all healthy, and all faulty.
func BenchmarkJudge(b *testing.B) {
	for name, health := range map[string]*backendv1.Health{"healthy": healthy(), "faulty": faulty("x", reset)} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			for i := range inventory.MaxDevices {
				r.plug(fmt.Sprintf("device-%04d", i)).Health = health
			}
			r.report()
			r.judgeNow()
			snap := r.store.Snapshot()
			b.ReportAllocs()
			for b.Loop() {
				r.judge.Judge(snap)
			}
		})
	}
}
