package fpga

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const quick = `{"health": {"interval": "1s", "sensors": "5s"}}`

// Faults of a region are its own; those of a card affect its board, with virtual functions.
func TestFaults(t *testing.T) {
	virtual := cardOf("v", 2, port("v", 0, functionB))
	virtual.Board, virtual.Virtual = "a", true
	other := cardOf("b", 3, port("b", 0, functionB))
	run(t, quick, func(r *rig, f *fake) {
		r.inventory("all regions", healthy(4))
		f.change(func() {
			f.region("a", 1).Faults = []driver.Fault{{Code: "port-errors", Recovery: sdk.RecoveryReset, Text: "errors is 0x1"}}
		})
		r.inventory("one region's", only("a-port1", "port-errors"))
		f.change(func() {
			f.card("a").Faults = []driver.Fault{{Code: "catastrophic", Recovery: sdk.RecoveryReboot, Text: "catfatal_errors is 0x1"}}
		})
		want := map[string]string{"a-port0": "catastrophic", "a-port1": "catastrophic", "v-port0": "catastrophic", "b-port0": ""}
		r.inventory("the board's", func(inv *backendv1.Inventory) bool {
			return !slices.ContainsFunc(inv.GetDevices(), func(d *backendv1.Device) bool { return d.GetHealth().GetCode() != want[d.GetId()] })
		})
	}, cardOf("a", 1, port("a", 0, functionA), port("a", 1, functionA)), virtual, other)
}

// A fault that settings ignore is no fault, whatever its recovery.
func TestIgnored(t *testing.T) {
	card := cardOf("a", 1, port("a", 0, functionA))
	card.Faults = []driver.Fault{{Code: "pcie-errors", Recovery: sdk.RecoveryReset, Text: "pcie0_errors is 0x1", Cause: "pcie0_errors"}}
	run(t, quick, func(r *rig, _ *fake) {
		r.inventory("the fault", only("a-port0", "pcie-errors"))
		r.configure(`{"health": {"interval": "1s", "ignore": ["pcie0_errors"]}}`)
		r.inventory("none", healthy(1))
	}, card)
}

// Settings define whether alarms of sensors are faults.
func TestAlarms(t *testing.T) {
	run(t, quick, func(r *rig, f *fake) {
		r.inventory("the region", healthy(1))
		alarm := driver.Senses{Faults: []driver.Fault{{Code: "over-temperature", Recovery: sdk.RecoverySelf, Text: "temp1 is too hot", Cause: "temp1_crit_alarm"}}}
		f.change(func() { f.senses["a"] = alarm })
		r.inventory("the alarm", only("a-port0", "over-temperature"))
		for _, settings := range []string{
			`{"health": {"sensors": "5s", "alarms": "report"}}`, `{"health": {"sensors": "5s", "ignore": ["temp1_crit_alarm"]}}`,
			`{"health": {"sensors": "0s"}}`, `{"health": {"alarms": "ignore"}}`,
		} {
			r.configure(settings)
			r.inventory("no fault by "+settings, healthy(1))
			r.configure(quick)
			r.inventory("the alarm again", only("a-port0", "over-temperature"))
		}
		f.change(func() { delete(f.senses, "a") })
		r.inventory("the end of it", healthy(1))
	}, cardOf("a", 1, port("a", 0, functionA)))
}

// A lost function is a fault in mode af, under its former name, unless containers can have the
// region programmed: then the reason why its resource has fewer devices is reported. The same
// holds for a region that never had a function.
func TestNoFunction(t *testing.T) {
	card := cardOf("a", 1, port("a", 0, functionA), port("a", 1, ""))
	run(t, quick, func(r *rig, f *fake) {
		r.inventory("one that never had one", only("a-port1", "no-function"))
		f.change(func() { *f.region("a", 0) = port("a", 0, "") })
		lost := func(inv *backendv1.Inventory) bool {
			return device(inv, "a-port0").GetHealth().GetCode() == "function-lost" && device(inv, "a-port1").GetHealth().GetCode() == "no-function"
		}
		if d := device(r.inventory("one that lost it", lost), "a-port0"); text(d, "functionName") != "af-"+functionA {
			t.Errorf("it lost its name, too: %v", d)
		}
		r.configure(`{"mode": "region", "health": {"interval": "1s"}}`)
		r.inventory("another mode", healthy(2))
		r.configure(programming)
		inv := r.inventory("containers can have it programmed", func(inv *backendv1.Inventory) bool {
			return healthy(2)(inv) && device(inv, "a-port0").GetClass() == classAF && len(inv.GetProblems()) == 1 &&
				strings.HasPrefix(inv.GetProblems()[0], "a-port0: the accelerator function "+functionA+" is no longer loaded, so the device is in no resource by the name af-"+functionA)
		})
		if d := device(inv, "a-port0"); text(d, "functionName") != "" {
			t.Errorf("it has a name: %v", d)
		}
		r.configure(quick)
		r.inventory("as before", lost)
		f.change(func() { *f.region("a", 0) = port("a", 0, functionB) })
		inv = r.inventory("another function", only("a-port1", "no-function"))
		if len(inv.GetProblems()) > 0 {
			t.Errorf("problems %q", inv.GetProblems())
		}
		if d := device(inv, "a-port0"); text(d, "functionName") != "af-"+functionB {
			t.Errorf("it is %v", d)
		}
	}, card)
}

func (r *rig) reset(ids ...string) map[string]*backendv1.ResetResult {
	r.t.Helper()
	var response *backendv1.ResetResponse
	var err error
	r.During(func() { response, err = r.Reset(r.t.Context(), &backendv1.ResetRequest{DeviceIds: ids}) })
	r.do(err)
	all := map[string]*backendv1.ResetResult{}
	for _, result := range response.GetResults() {
		all[result.GetDeviceId()] = result
	}
	return all
}

// A whole card is reset with everything on its board, so only on request, and not before a
// start.
func TestResetOfABoard(t *testing.T) {
	var cards []driver.Card
	for i, id := range []string{"a", "b"} {
		shell := port(id, 0, functionA)
		shell.ID, shell.Kind = id, driver.Platform
		c := cardOf(id, uint8(i+1), shell)
		c.Board = "board"
		cards = append(cards, c)
	}
	run(t, quick, func(r *rig, f *fake) {
		r.inventory("both", healthy(2))
		r.says("one alone", errors.New(r.reset("a")["a"].GetMessage()), "would also reset", "b")
		r.configure(`{"prepare": {"reset": true}, "health": {"interval": "1s"}}`)
		synctest.Wait()
		r.says("before a start", r.prepare("", nil, "a"), "a is not reset before the start", "may be in use: b", "prepare.reset")
		r.says("of both", r.prepare("", nil, "a", "b"), "may be in use: b", "may be in use: a")
		if _, resets := f.done(); len(resets) > 0 {
			t.Errorf("resets: %v", resets)
		}
		for id, got := range r.reset("a", "b") {
			if !got.GetRecovered() {
				t.Errorf("%s: %v", id, got)
			}
		}
	}, cards...)
}

// Sensors and counts are measured while a client requests metrics: those of a card under its ID,
// those of a function that only manages under that of the board's.
func TestSample(t *testing.T) {
	a, manages := cardOf("a", 2, port("a", 0, functionA)), cardOf("m", 1)
	manages.Board, a.Board, a.Virtual = "m", "m", true
	a.Counts = []driver.Count{{Name: "errors_raised", Label: "fme_errors", Value: 3}}
	a.Regions[0].Counts = []driver.Count{{Name: "resets_total", Grows: true, Value: 2}}
	run(t, `{"health": {"sensors": "0s"}}`, func(r *rig, f *fake) {
		r.inventory("the region", healthy(1))
		f.change(func() {
			for _, id := range []string{"a", "m"} {
				f.senses[id] = driver.Senses{Sensors: []driver.Sensor{{Metric: "temperature_celsius", Sensor: id + " core", Value: 41}}}
			}
		})
		got := map[string]float64{}
		r.During(func() {
			all, err := r.backend.Sample(r.t.Context())
			r.do(err)
			for _, m := range all {
				got[m.GetDeviceId()+" "+m.GetName()+" "+m.GetLabels()["sensor"]+m.GetLabels()["register"]+" "+m.GetKind().String()] = m.GetValue()
			}
		})
		for key, want := range map[string]float64{
			"a errors_raised fme_errors METRIC_KIND_GAUGE":   3,
			"a-port0 resets_total  METRIC_KIND_COUNTER":      2,
			"a temperature_celsius a core METRIC_KIND_GAUGE": 41,
			"a temperature_celsius m core METRIC_KIND_GAUGE": 41,
		} {
			if value, ok := got[key]; !ok || value != want {
				t.Errorf("%s is %v (there: %v), want %v; all: %v", key, value, ok, want, got)
			}
		}
		if len(got) != 4 {
			t.Errorf("metrics: %v", got)
		}
	}, manages, a)
}

// Impossible values of sensors are a problem of their card, one for all of them, as long as they
// last.
func TestImplausibleSensors(t *testing.T) {
	run(t, quick, func(r *rig, f *fake) {
		r.inventory("the region", healthy(1))
		f.change(func() { f.senses["a"] = driver.Senses{Implausible: []string{"t1", "t2", "t3", "t4", "t5"}} })
		r.inventory("the problem", func(inv *backendv1.Inventory) bool {
			p := inv.GetProblems()
			return healthy(1)(inv) && len(p) == 1 && strings.Contains(p[0], "a: ") && strings.Contains(p[0], "t1, t2, t3") && strings.Contains(p[0], "and 2 more")
		})
		f.change(func() { delete(f.senses, "a") })
		r.inventory("none", func(inv *backendv1.Inventory) bool { return healthy(1)(inv) && len(inv.GetProblems()) == 0 })
	}, cardOf("a", 1, port("a", 0, functionA)))
}
