package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Sensors are read after each interval, and for telemetry; a unit that hangs costs its own
// metrics, and is not read twice at a time.
func TestSensors(t *testing.T) {
	a, b, manages := unitOf("a", 1, "a0"), unitOf("b", 2, "b0"), unitOf("m", 3)
	manages.Board = "a"
	f := &fake{name: "f", result: Scan{Units: []Unit{a, b, manages}}}
	run(t, time.Second, func(r *rig) {
		r.wait("a0= b0=")
		var mu sync.Mutex
		var alarm faults
		var hold chan struct{}
		reading, most := 0, 0
		set := func(to faults, until chan struct{}) {
			mu.Lock()
			defer mu.Unlock()
			alarm, hold = to, until
		}
		f.set(func() {
			f.sense = func(unit string) faults {
				if unit != "a" {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				reading++
				most = max(most, reading)
				if until := hold; until != nil {
					mu.Unlock()
					<-until
					mu.Lock()
				}
				reading--
				return alarm
			}
		})
		hotter := faults{sdk.Fault("hot", sdk.RecoverySelf, "x")}
		set(hotter, nil)
		sample := func() (all string) {
			r.During(func() {
				metrics, err := r.Sample(r.t.Context())
				r.do(err)
				var names []string
				for _, m := range metrics {
					names = append(names, fmt.Sprint(m.GetDeviceId(), ":", m.GetName()))
				}
				slices.Sort(names)
				all = strings.Join(names, " ")
			})
			return all
		}
		const counted, hot = "a:a_total a:m_total", " a:temperature_celsius"
		if got := sample(); got != counted+hot+hot+" b:b_total b:temperature_celsius" {
			t.Error(got)
		}
		r.wait("a0=hot b0=")
		set(nil, nil)
		r.configure(func(s *Settings) { s.Sensing = 5 * time.Second })
		r.wait("a0= b0=")
		set(hotter, nil)
		r.wait("a0=hot b0=")
		r.configure(func(s *Settings) { s.Sensing = 0 })
		until := make(chan struct{})
		set(hotter, until)
		for range 2 {
			if got := sample(); got != counted+hot+" b:b_total b:temperature_celsius" {
				t.Error(got)
			}
		}
		close(until)
		r.idle(time.Second)
		if most != 1 {
			t.Errorf("the sensors of one unit were read %d times at once", most)
		}
	}, f)
}
