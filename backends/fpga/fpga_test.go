package fpga

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Cards are listed when the kernel tells of them, and leave the list when they are
// unplugged; the others never notice.
func TestHotPlug(t *testing.T) {
	first, second := cardOf("a", 1, port("a", 0, functionA)), cardOf("b", 2, port("b", 0, functionB), port("b", 1, functionB))
	run(t, `{"health": {"interval": "1h"}}`, func(r *rig, f *fake) {
		r.inventory("one card", healthy(1))
		r.idle(time.Second) // uevents are heard from the first look on
		r.plug(second)
		f.change(func() { f.reading.Cards = append(f.reading.Cards, second) })
		r.kernel.Tell(uevent.Add, "/devices/pci0000:00/0000:02:00.0/fpga_region/region1", "fpga_region", nil)
		began := time.Now()
		r.inventory("both", healthy(3))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("that took %v", took)
		}
		r.do(os.RemoveAll(r.function(second)))
		f.change(func() { f.reading.Cards = f.reading.Cards[:1] })
		r.kernel.Tell(uevent.Remove, "/devices/pci0000:00/0000:02:00.0", "pci", map[string]string{"PCI_CLASS": "120000", "PCI_ID": "8086:0B30"})
		r.inventory("one again", healthy(1))
	}, first)
}

// A card without its driver, one that half answers, and one that is away with the driver
// keep their places with the fault that fits, and come back with evidence.
func TestAbsentCards(t *testing.T) {
	a, b := cardOf("a", 1, port("a", 0, functionA)), cardOf("b", 2, port("b", 0, functionB))
	run(t, `{"health": {"interval": "1s"}}`, func(r *rig, f *fake) {
		r.inventory("both", healthy(2))
		away := func(code string, recovers bool, reading driver.Reading) {
			t.Helper()
			f.change(func() { f.reading = reading })
			inv := r.inventory(code, func(inv *backendv1.Inventory) bool { return device(inv, "b-port0").GetHealth().GetCode() == code })
			d := device(inv, "b-port0")
			if text(d, "functionName") != "af-"+functionB || d.GetHealth().GetRecovery() != sdk.RecoverySelf {
				t.Errorf("%s: %v", code, d)
			}
			r.bind(b, "dfl-pci")
			f.change(func() { f.reading = driver.Reading{Cards: []driver.Card{a, b}} })
			r.inventory("back after "+code, func(inv *backendv1.Inventory) bool {
				return healthy(2)(inv) && device(inv, "b-port0").GetHealth().GetRecovered() == recovers
			})
		}
		one := driver.Reading{Cards: []driver.Card{a}}
		r.bind(b, "")
		away("driver-unbound", true, one)
		r.bind(b, "vfio-pci")
		away("driver-unbound", true, one)
		one.Problems = []driver.Problem{{Device: "0000:02:00.0", Lost: true, Err: errors.New("the card does not answer")}}
		away("card-incomplete", false, one)
		half := b
		half.Regions = nil
		away("region-incomplete", false, driver.Reading{Cards: []driver.Card{a, half}, Problems: []driver.Problem{
			{Device: "0000:02:00.0 dfl-port.1", Lost: true, Err: errors.New("afu_id is cut off")},
		}})
		away("driver-away", true, driver.Reading{Absent: true})
		r.do(os.RemoveAll(r.function(b) + "/vendor"))
		away("card-gone", false, one)
	}, a, b)
}

// A look that lacks something is believed when the next one says the same, and one at a
// machine that changes never is.
func TestDoubtfulLooks(t *testing.T) {
	a, b := cardOf("a", 1, port("a", 0, functionA)), cardOf("b", 2, port("b", 0, functionB))
	run(t, `{"health": {"interval": "1h"}}`, func(r *rig, f *fake) {
		r.inventory("both", healthy(2))
		r.idle(time.Second)
		whole := f.reading
		for name, reading := range map[string]driver.Reading{
			"a card lacks":      {Cards: []driver.Card{a}},
			"a function lacks":  {Cards: []driver.Card{a, cardOf("b", 2, port("b", 0, ""))}},
			"it is unsettled":   {Cards: []driver.Card{a}, Unsettled: true},
			"something is lost": {Cards: []driver.Card{a, b}, Problems: []driver.Problem{{Device: "region3", Lost: true, Err: errors.New("no link")}}},
		} {
			f.change(func() { f.reading = reading })
			before := f.count()
			r.kernel.Tell(uevent.Change, "/devices/x", "fpga_region", nil)
			all := r.During(func() {
				for f.count() == before {
					<-time.After(10 * time.Millisecond)
				}
				f.change(func() { f.reading = whole })
				<-time.After(2 * time.Second)
			})
			if len(all) > 0 {
				t.Errorf("%s for one look: %v", name, sdktest.Summary(all[0]))
			}
		}
		f.change(func() { f.reading.Unsettled = true })
		r.kernel.Tell(uevent.Change, "/devices/x", "fpga_region", nil)
		r.inventory("a machine that does not settle", func(inv *backendv1.Inventory) bool { return healthy(2)(inv) && len(inv.GetProblems()) == 1 })
	}, a, b)
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

// A driver that hangs costs what it has: how its cards are cannot be told. Those of
// another driver are read as ever.
func TestHangingDriver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{t: t, name: "dfl", reading: driver.Reading{Cards: []driver.Card{cardOf("a", 1, port("a", 0, functionA))}}}
		g := &fake{t: t, name: "manager", reading: driver.Reading{Cards: []driver.Card{cardOf("b", 2, port("b", 0, functionB))}}}
		r := newRig(t, f, g)
		r.watch(`{"health": {"interval": "1s"}}`)
		r.inventory("both", healthy(2))
		hold := make(chan struct{})
		f.change(func() { f.hold = hold })
		r.inventory("the hang", func(inv *backendv1.Inventory) bool {
			return device(inv, "a-port0").GetHealth().GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN && len(inv.GetProblems()) == 2
		})
		g.change(func() {
			g.reading.Cards[0].Faults = []driver.Fault{{Code: "firewall", Recovery: sdk.RecoveryReset, Text: "it tripped"}}
		})
		r.inventory("a fault of the other", func(inv *backendv1.Inventory) bool { return device(inv, "b-port0").GetHealth().GetCode() == "firewall" })
		f.change(func() { f.hold = nil })
		close(hold)
		r.inventory("the end of it", func(inv *backendv1.Inventory) bool {
			return only("b-port0", "firewall")(inv) && len(inv.GetProblems()) == 0
		})
		// A driver that settings leave out has nothing any more.
		r.configure(`{"drivers": ["dfl"]}`)
		r.inventory("one driver", healthy(1))
	})
}
