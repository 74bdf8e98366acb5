package fpga

import "testing"

// A start that programs a region scans it twice, before and after; one whose file is already
// loaded scans once. Reading the cards is the cost of a start.
func TestScansOfAStart(t *testing.T) {
	run(t, `{"bitstreams": "BITSTREAMS", "health": {"interval": "1h"}}`, func(r *rig, f *fake) {
		r.inventory("an empty region", healthy(1))
		r.gbs("a.gbs", functionA)
		for start, want := range []int{2, 1} {
			before := f.count()
			r.do(r.prepare("a.gbs", nil, "a-port0"))
			if scans := f.count() - before; scans != want {
				t.Errorf("start %d: %d scans, want %d", start, scans, want)
			}
		}
	}, cardOf("a", 1, port("a", 0, "")))
}
