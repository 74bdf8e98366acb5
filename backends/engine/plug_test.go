package engine

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// A fault belongs to the hardware. What comes back after it was unplugged is another card, or one that was set up
// again, by the same ID: that is evidence of recovery, whether a scan saw the place empty or only the
// kernel's event shows it. The core has the fault of the card before, and no event of a device that is healthy is
// a fault.
func TestHardwareThatIsPluggedAgain(t *testing.T) {
	a := unitOf("a", 1, "a0")
	at := "/devices/pci0000:00/" + a.PCI.Address.String()
	f := &fake{name: "f", result: Scan{Units: []Unit{a, unitOf("b", 2, "b0")}}}
	run(t, time.Hour, func(r *rig) {
		r.wait("a0= b0=")
		f.fail("a0", "broken", sdk.RecoveryReset)
		r.event()
		r.wait("a0=broken b0=")
		r.sysfs.Remove("bus/pci/devices/" + a.PCI.Address.String())
		f.set(func() { f.result.Units = f.result.Units[1:] })
		r.event()
		r.wait("b0=")
		f.set(func() { f.result.Units = append([]Unit{a}, f.result.Units...) })
		f.fail("a0", "", 0)
		r.plug(a, "fake")
		r.event()
		r.wait("a0=recovered b0=")
		f.fail("a0", "broken", sdk.RecoveryReset)
		r.event()
		r.wait("a0=broken b0=")
		f.fail("a0", "", 0)
		r.kernel.Send(uevent.Add, at, "fake", nil)                                 // of another bus
		r.kernel.Send(uevent.Add, at, "pci", map[string]string{"SYNTH_UUID": "0"}) // of udevadm trigger
		r.wait("a0= b0=")
		f.fail("a0", "broken", sdk.RecoveryReset)
		r.event()
		r.wait("a0=broken b0=")
		f.fail("a0", "", 0)
		r.kernel.Send(uevent.Add, at, "pci", nil)
		r.wait("a0=recovered b0=")
		f.fail("a0", "broken", sdk.RecoveryReset)
		r.event()
		r.wait("a0=broken b0=")
		f.fail("a0", "", 0)
		r.event()
		r.wait("a0= b0=")
		r.idle(2 * time.Second)
		r.kernel.Send(uevent.Add, at, "pci", nil) // of the fault of an earlier process only the core knows
		for _, inv := range r.idle(time.Minute) {
			if got := codes(inv); got != "a0=recovered b0=" {
				t.Errorf("%s", got)
			}
		}
		r.wait("a0=recovered b0=")
	}, f)
}

// A unit whose directory is gone while its hardware is there was moved, as an interface into the network namespace
// of a pod: that is evidence of nothing.
func TestMovedUnit(t *testing.T) {
	u := Unit{ID: "a", Board: "a", Dir: "devices/card/net/can0", Hardware: "devices/card", Devices: unitOf("a", 1, "a0").Devices}
	f := &fake{name: "f"}
	run(t, time.Hour, func(r *rig) {
		move := func(here bool) {
			t.Helper()
			r.sysfs.Remove(u.Dir)
			f.set(func() { f.result.Units = nil })
			if here {
				r.sysfs.File(u.Dir+"/flags", "0x1")
				f.set(func() { f.result.Units = []Unit{u} })
			}
			r.event()
		}
		r.sysfs.File(u.Hardware+"/vendor", "x")
		r.wait("")
		move(true)
		r.wait("a0=")
		move(false)
		r.wait("")
		move(true)
		r.wait("a0=")
		move(false)
		r.wait("")
		move(true)
		r.wait("a0=")
		r.sysfs.Remove(u.Hardware)
		move(false)
		r.wait("")
		r.sysfs.File(u.Hardware+"/vendor", "x")
		move(true)
		r.wait("a0=recovered")
	}, f)
}
