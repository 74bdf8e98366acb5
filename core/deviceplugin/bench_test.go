package deviceplugin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// BenchmarkChangedView measures what one device of many that fails or recovers costs,
// from its table on to the decision that its list is sent.
func BenchmarkChangedView(b *testing.B) {
	for _, devices := range []int{8, 4096} {
		b.Run(fmt.Sprint(devices), func(b *testing.B) {
			now := table(gpus(devices), nil)
			names := &pointed{}
			before := newView(now.Resources[0], names, nil)
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				b.StopTimer()
				r := *now.Resources[0]
				r.Devices = slices.Clone(r.Devices)
				changed := &r.Devices[n*7919%devices]
				d := *changed.Device
				changed.Device, changed.Verdict = &d, health.Verdict{Healthy: !changed.Verdict.Healthy}
				b.StartTimer()
				v := newView(&r, names, before)
				if !sameList(before.list, v.list) {
					takesAway(before.list, v.list)
				}
				now.Resources[0], before = &r, v
			}
		})
	}
}

// pointed are names that are the same as long as they are at the same place.
type pointed struct{ _ int }

func (*pointed) Qualified(key inventory.Key) (string, error) { return "x/y=" + key.ID, nil }
