package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// counters are the error counters of the unit b, which are required; other units have none.
type counters struct {
	mu    sync.Mutex
	fault *sdk.Health
	// hold: a reading waits until it is closed, and returns the fault from before.
	hold chan struct{}
}

func (c *counters) sense(unit string) faults {
	if unit != "b" {
		return nil
	}
	c.mu.Lock()
	hold, fault := c.hold, c.fault
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return faults{fault}
}

func (c *counters) set(fault *sdk.Health, hold chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault, c.hold = fault, hold
}

var ecc = sdk.Fault("ecc", sdk.RecoveryReset, "1 error")

// Where sensors are required, a unit is listed once they were read, or after 5 s. Without a
// reading its health is unknown.
func TestSensesRequired(t *testing.T) {
	c := &counters{}
	f := &fake{name: "f", required: true, hangs: true, sense: c.sense, result: Scan{Units: []Unit{unitOf("a", 1, "a0"), unitOf("b", 2, "b0", "b1")}}}
	run(t, time.Hour, func(r *rig) {
		hold := make(chan struct{})
		c.set(nil, hold)
		f.set(func() {
			close(f.hold) // the first scan
			f.hold = nil
		})
		r.wait("a0= b0=unknown b1=unknown")
		r.problem("b: the health of the FPGA is unknown")
		close(hold)
		r.wait("a0= b0= b1=")
		r.problem("")
		c.set(ecc, nil)
		r.wait("a0= b0=ecc b1=ecc")
		hold = make(chan struct{})
		c.set(nil, hold)
		if r.idle(2 * time.Minute); codes(r.Last) != "a0= b0=ecc b1=ecc" {
			t.Errorf("a fault is hidden by a reading that hangs: %s", codes(r.Last))
		}
		close(hold)
		r.wait("a0= b0= b1=")
	}, f)
}

// A unit that is plugged in is listed when its sensors were read. Until then no device has a
// link to it.
func TestLinksToListed(t *testing.T) {
	c := &counters{}
	f := &fake{name: "f", required: true, sense: c.sense, result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		hold := make(chan struct{})
		c.set(ecc, hold)
		b := unitOf("b", 2, "b0")
		r.plug(b, "fake")
		f.set(func() { f.result.Units = append(f.result.Units, b) })
		r.event()
		if r.idle(4 * time.Second); codes(r.Last) != "a0=" || len(r.Last.GetDevices()[0].GetLinks()) != 0 {
			t.Errorf("%s, with %d links", codes(r.Last), len(r.Last.GetDevices()[0].GetLinks()))
		}
		close(hold)
		if inv := r.wait("a0= b0=ecc"); len(inv.GetDevices()[0].GetLinks()) != 1 {
			t.Errorf("links %v", inv.GetDevices()[0].GetLinks())
		}
	}, f)
}

// Where sensors are required, a reset is evidence after a scan and a reading that began later.
// Sensors that are unavailable are read again soon.
func TestResetIsSensed(t *testing.T) {
	c := &counters{}
	f := &fake{name: "f", required: true, sense: c.sense, result: Scan{Units: []Unit{unitOf("a", 1, "a0"), unitOf("b", 2, "b0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0= b0=")
		c.set(ecc, nil)
		r.wait("a0= b0=ecc")
		r.says("a reset that does not help", errors.New(r.reset("b0")), "the reset was done, but 1 error")

		hold := make(chan struct{})
		c.set(ecc, hold)
		r.idle(2 * time.Minute) // a reading is in progress
		f.set(func() {
			f.reset = func(context.Context) error {
				c.set(nil, nil)
				f.set(func() { f.unavailable = true })
				time.AfterFunc(2*time.Second, func() { close(hold) })
				time.AfterFunc(6*time.Second, func() { f.set(func() { f.unavailable = false }) })
				return nil
			}
		})
		began := time.Now()
		if failed := r.reset("b0"); failed != "" {
			t.Error(failed)
		}
		if took := time.Since(began); took < 6*time.Second || took > 8*time.Second {
			t.Errorf("it took %v", took)
		}
		r.wait("a0= b0=recovered")
	}, f)
}

// A reset by the driver on its own is a fault until its end, and evidence then. After 2 minutes
// without an end the fault needs a reset.
func TestDriverResets(t *testing.T) {
	c := &counters{}
	f := &fake{name: "f", required: true, sense: c.sense, result: Scan{Units: []Unit{unitOf("a", 1, "a0"), unitOf("b", 2, "b0", "b1")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0= b0= b1=")
		var renewals uint64
		do := func(what func(*KnownUnit)) {
			t.Helper()
			r.During(func() {
				r.do(r.Do(r.t.Context(), func(known Known) {
					b := known.Units()[1]
					what(b)
					renewals = b.Renewals()
				}))
			})
		}
		do((*KnownUnit).BeginReset)
		r.wait("a0= b0=resetting b1=resetting")
		began := time.Now()
		r.wait("a0= b0=reset-failed b1=reset-failed")
		if took := time.Since(began); took > busyLimit {
			t.Errorf("after %v", took)
		}
		do((*KnownUnit).EndReset)
		r.wait("a0= b0=recovered b1=recovered")
		do((*KnownUnit).BeginReset)
		r.wait("a0= b0=resetting b1=resetting")
		c.set(ecc, nil) // of after the reset
		do((*KnownUnit).EndReset)
		r.wait("a0= b0=ecc b1=ecc")
		c.set(nil, nil)
		r.wait("a0= b0= b1=") // the evidence was for what was before

		hold := make(chan struct{})
		c.set(ecc, hold)
		r.idle(2 * time.Minute) // a reading is in progress
		next := make(chan struct{})
		c.set(nil, next)
		do((*KnownUnit).EndReset)
		close(hold)
		time.AfterFunc(time.Second, func() { close(next) })
		for _, inv := range append(r.idle(2*time.Second), r.Last) {
			if c := codes(inv); strings.Contains(c, "ecc") {
				t.Errorf("a reading from before the reset: %s", c)
			}
		}
		r.wait("a0= b0=recovered b1=recovered")
		if renewals != 3 {
			t.Errorf("%d renewals", renewals)
		}
	}, f)
}

// measurer has telemetry apart from its sensors.
type measurer struct{ *fake }

func (measurer) Measure(u Unit, device string) []*sdk.Metric {
	return []*sdk.Metric{sdk.Gauge(device, "power_watts", 1), sdk.Gauge(u.Devices[0].ID, "utilization_ratio", 1)}
}

// Telemetry that is read apart from sensors reads no sensors.
func TestMeasure(t *testing.T) {
	f := &fake{name: "f", result: Scan{Units: []Unit{unitOf("a", 1, "a0")}}}
	f.sense = func(string) faults { t.Error("sensors were read"); return nil }
	run(t, time.Hour, func(r *rig) {
		r.wait("a0=")
		r.configure(func(s *Settings) { s.Drivers = []Driver{measurer{f}} })
		var names []string
		r.During(func() {
			metrics, err := r.Sample(r.t.Context())
			r.do(err)
			for _, m := range metrics {
				names = append(names, m.GetDeviceId()+":"+m.GetName())
			}
		})
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "a0:utilization_ratio a:a_total a:power_watts" {
			t.Error(got)
		}
	}, f)
}
