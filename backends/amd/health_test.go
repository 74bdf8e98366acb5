package amd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/backends/amd/exporter"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
)

// kfdID returns KFD's number of the first partition of a GPU.
func (r *rig) kfdID(at pci.Address) uint32 {
	r.t.Helper()
	inventory, err := gpu.Read(r.tree.Sysfs(), nil)
	r.do(err)
	for _, g := range inventory.GPUs {
		if g.PCI.Address == at {
			return g.Partitions[0].KFDID
		}
	}
	r.t.Fatalf("no GPU at %s", at)
	return 0
}

// recovered reports whether there are n healthy devices, with evidence for those at an
// address and for no others.
func recovered(n int, at string) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		for _, d := range inv.GetDevices() {
			if d.GetHealth().GetRecovered() != (d.GetPciBusId() == at) {
				return false
			}
		}
		return healthy(n)(inv)
	}
}

// A reset by the driver, as KFD's events report it: meanwhile the card keeps its place. Then
// what was counted before is no fault any more, but what is counted later is.
func TestResetIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI300X("DPX", "NPS1")
		at := m.GPUs[6].Address
		r := start(t, m, withEvents)
		r.Until("all devices", healthy(16))
		id := r.kfdID(at)
		r.do(r.tree.RaiseCounter(6, "umc.ue", 1))
		r.Until("the fault", onlyBad(16, at.String(), "ecc-uncorrectable"))
		r.eventually("the events of the card are read", func() bool { return r.events.send(id, "3 1 ras") })
		r.During(func() { // RECOVERY_RESET is graver than "resetting": the fault stays
			r.events.send(id, "4 1")
		})
		r.Until("evidence", recovered(16, at.String()))
		r.do(r.tree.RaiseCounter(6, "umc.ue", 1))
		r.Until("the next fault", func(inv *backendv1.Inventory) bool {
			return onlyBad(16, at.String(), "ecc-uncorrectable")(inv) &&
				strings.Contains(fmt.Sprint(sdktest.Summary(inv)), "1 uncorrectable errors since the last reset, and 1 before it")
		})
		r.events.send(id, "4 2")
		r.Until("evidence once more", recovered(16, at.String()))
		r.events.send(id, "3 3 user")
		r.Until("a reset", onlyBad(16, at.String(), "resetting"))
		r.events.end(id) // as if the driver is unloaded meanwhile
		r.eventually("its events are read again", func() bool { return r.events.send(id, "4 3") })
		r.Until("evidence a third time", recovered(16, at.String()))
	})
}

// Errors that a reset has cured are no fault either after a restart of the backend, whatever cannot be read meanwhile.
// Others are, and so are all after a boot or where the file is damaged, which is a problem.
func TestCuredErrorsStayCured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		at := m.GPUs[2].Address.String()
		r := start(t, m, withEvents)
		r.Until("all GPUs", healthy(8))
		r.do(r.tree.RaiseCounter(2, "umc.ue", 2))
		r.do(r.tree.RaiseCounter(2, "gfx.ue", 1))
		r.Until("the fault", onlyBad(8, at, "ecc-uncorrectable"))
		id := r.kfdID(m.GPUs[2].Address)
		r.eventually("the driver has reset the GPU", func() bool { return r.events.send(id, "4 1") })
		r.Until("evidence", recovered(8, at))
		file := filepath.Join("sys/bus/pci/devices", at, "ras/umc_err_count")
		text, err := os.ReadFile(filepath.Join(r.tree.Root, file))
		r.do(err)
		r.do(r.tree.SetFile(file, "many\n"))
		r.Until("a counter that cannot be read", func(inv *backendv1.Inventory) bool {
			return strings.Contains(strings.Join(inv.GetProblems(), "\n"), "umc_err_count")
		})
		r.do(r.tree.SetFile(file, string(text)))
		r.Until("it is read again", func(inv *backendv1.Inventory) bool { return healthy(8)(inv) && len(inv.GetProblems()) == 0 })
		r.eventually("it is recorded", func() bool {
			text, _ := os.ReadFile(filepath.Join(r.state, "errors.json"))
			return strings.Contains(string(text), " 3")
		})

		again := func(boot string) *rig {
			next := newRig(t, amdtree.Machine{})
			next.tree, next.state = r.tree, r.state
			next.boot(boot)
			next.watch(quick)
			return next
		}
		next := again("1")
		if inv := next.Until("all GPUs", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 8 }); !healthy(8)(inv) {
			t.Errorf("after a restart: %v", sdktest.Summary(inv))
		}
		r.do(r.tree.RaiseCounter(2, "umc.ue", 1))
		next.Until("the next fault", func(inv *backendv1.Inventory) bool {
			return onlyBad(8, at, "ecc-uncorrectable")(inv) &&
				strings.Contains(fmt.Sprint(sdktest.Summary(inv)), "1 uncorrectable errors since the last reset, and 3 before it")
		})
		again("2").Until("all errors of this boot", func(inv *backendv1.Inventory) bool {
			return onlyBad(8, at, "ecc-uncorrectable")(inv) &&
				strings.Contains(fmt.Sprint(sdktest.Summary(inv)), "4 uncorrectable errors since the driver was loaded")
		})
		r.file("{", r.state, "errors.json")
		again("1").Until("a problem", func(inv *backendv1.Inventory) bool {
			return onlyBad(8, at, "ecc-uncorrectable")(inv) && strings.Contains(strings.Join(inv.GetProblems(), "\n"), "errors.json")
		})
	})
}

// A uevent of the driver about a card that it could not recover is a fault.
func TestWedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		at := m.GPUs[1].Address.String()
		for methods, want := range map[string]backendv1.Recovery{
			"rebind,bus-reset": backendv1.Recovery_RECOVERY_RESET,
			"bus-reset":        backendv1.Recovery_RECOVERY_RESET,
			"unknown":          backendv1.Recovery_RECOVERY_REBOOT,
		} {
			r := start(t, m, quick)
			r.Until("all GPUs", healthy(8))
			send := func(methods, at string) {
				r.kernel.Send(uevent.Change, "/devices/pci0000:00/0000:00:01.1/"+at+"/drm/card1", "drm", map[string]string{"WEDGED": methods})
			}
			send("none", m.GPUs[2].Address.String())
			send("unknown", "0000:ee:00.0")
			send(methods, at)
			inv := r.Until("the fault", onlyBad(8, at, "wedged"))
			for _, d := range inv.GetDevices() {
				if h := d.GetHealth(); h.GetCode() != "" && h.GetRecovery() != want {
					t.Errorf("%s: %v, want %v", methods, h, want)
				}
			}
			r.do(r.tree.ReloadDriver())
			r.Until("no driver", func(inv *backendv1.Inventory) bool {
				return inv.GetDevices()[0].GetHealth().GetCode() == "driver-unbound"
			})
			r.do(r.tree.ReloadDriver(0, 1, 2, 3, 4, 5, 6, 7))
			r.Until("the driver again", healthy(8))
		}
	})
}

// Bad pages that wait for a reset, and too many bad pages, are faults.
func TestBadPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		at := m.GPUs[0].Address.String()
		file := filepath.Join("sys/bus/pci/devices", at, "ras/gpu_vram_bad_pages")
		r := start(t, m, strings.Replace(quick, `"interval": "1s"`, `"interval": "1s", "badPages": 2`, 1))
		r.Until("all GPUs", healthy(8))
		page := func(state string) string { return "0x00000001 : 0x00001000 : " + state + "\n" }
		r.do(r.tree.SetFile(file, page("R")+page("P")))
		r.Until("pages that wait", onlyBad(8, at, "bad-pages-pending"))
		r.do(r.tree.SetFile(file, page("R")+page("R")))
		r.Until("no fault", healthy(8))
		r.do(r.tree.SetFile(file, page("R")+page("R")+page("R")))
		r.Until("too many pages", onlyBad(8, at, "bad-pages"))
	})
}

// Heat and errors of links are faults if settings require it.
func TestReactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		at := m.GPUs[4].Address
		r := start(t, m, strings.Replace(withEvents, `"interval": "1s"`, `"interval": "1s", "thermal": "fault", "xgmi": "fault"`, 1))
		r.Until("all GPUs", healthy(8))
		id := r.kfdID(at)
		r.eventually("the events of the card are read", func() bool { return r.events.send(id, "2 20:5") })
		r.Until("heat", onlyBad(8, at.String(), "thermal-throttle"))
		r.configure(quick)
		r.Until("no fault by other settings", healthy(8))
		r.configure(strings.Replace(quick, `"interval": "1s"`, `"interval": "1s", "xgmi": "fault"`, 1))
		r.do(r.tree.RaiseCounter(4, "xgmi_error", 2))
		r.Until("errors of links", onlyBad(8, at.String(), "xgmi-errors"))
	})
}

// fakeExporter returns what a test sets.
type fakeExporter struct {
	mu   sync.Mutex
	gpus []exporter.GPU
	err  error
}

func (o *fakeExporter) List(context.Context) ([]exporter.GPU, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gpus, o.err
}

func (o *fakeExporter) set(err error, gpus ...exporter.GPU) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gpus, o.err = gpus, err
}

// What the exporter reports as unhealthy is a fault, unless it is all GPUs. Its silence is a
// problem.
func TestExporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		at := m.GPUs[2].Address
		o := &fakeExporter{err: exporter.ErrAbsent}
		r := newRig(t, m)
		r.backend.seams.exporter = func(string) lister { return o }
		r.watch(strings.NewReplacer(`"interval": "1s"`, `"interval": "1s", "exporter": "/run/exporter.sock"`, `"rescan": "1s"`, `"rescan": "1h"`).Replace(quick))
		unmonitored := func(why string) func(*backendv1.Inventory) bool {
			return func(inv *backendv1.Inventory) bool {
				return healthy(8)(inv) && len(inv.GetProblems()) == 1 && strings.Contains(inv.GetProblems()[0], why)
			}
		}
		r.Until("all GPUs, without an exporter", unmonitored(exporter.ErrAbsent.Error()))
		report := func(state exporter.State, at pci.Address) exporter.GPU {
			return exporter.GPU{State: state, Text: state.String(), PCI: at, HasPCI: true}
		}
		unhealthy := report(exporter.Unhealthy, at)
		o.set(nil, unhealthy, report(exporter.Healthy, m.GPUs[0].Address))
		r.Until("its report", onlyBad(8, at.String(), "exporter-unhealthy"))
		o.set(nil, unhealthy, report(exporter.Unhealthy, m.GPUs[0].Address))
		inv := r.Until("no report on any", healthy(8))
		if len(inv.GetProblems()) > 0 {
			t.Errorf("problems %q, though it answers", inv.GetProblems())
		}
		o.set(errors.New("it is slow"))
		r.Until("that alone", unmonitored("it is slow"))
		o.set(nil, unhealthy, report(exporter.Healthy, m.GPUs[0].Address))
		r.Until("its report again", onlyBad(8, at.String(), "exporter-unhealthy"))
		o.set(errors.New("it hangs"), unhealthy, report(exporter.Healthy, m.GPUs[0].Address))
		r.Until("nothing known", unmonitored("it hangs"))
		r.configure(quick)
		r.Until("it is not read", func(inv *backendv1.Inventory) bool { return healthy(8)(inv) && len(inv.GetProblems()) == 0 })
	})
}

// KFD's node is opened only if settings require its events: a process that has opened it once
// keeps the driver from switching partition modes.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewVega10()
		r := start(t, m, quick)
		r.Until("the GPU", healthy(1))
		if r.events.opened() {
			t.Error("events were opened")
		}
		r.configure(withEvents)
		id := r.kfdID(m.GPUs[0].Address)
		r.eventually("it is listened to", func() bool { return r.events.send(id, "2 20:5") })
		r.configure(quick)
		r.eventually("its events are not read", func() bool { return !r.events.send(id, "2 20:5") })
	})
}

// Errors of links from before a reset do not count again with other settings.
func TestLinkErrorsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		at := m.GPUs[3].Address
		r := start(t, m, strings.Replace(withEvents, `"interval": "1s"`, `"interval": "1s", "xgmi": "fault"`, 1))
		r.Until("all GPUs", healthy(8))
		file := filepath.Join("sys/bus/pci/devices", at.String(), "xgmi_error")
		r.do(r.tree.RaiseCounter(3, "xgmi_error", 2))
		r.Until("the fault", onlyBad(8, at.String(), "xgmi-errors"))
		r.do(r.tree.SetFile(file, "0\n")) // as the driver does when it is read
		id := r.kfdID(at)
		r.eventually("the events of the card are read", func() bool { return r.events.send(id, "4 1") })
		r.Until("evidence", recovered(8, at.String()))
		for _, setting := range []string{"report", "ignore", "fault"} {
			r.configure(strings.Replace(quick, `"interval": "1s"`, `"interval": "1s", "xgmi": "`+setting+`"`, 1))
			r.Until("the same by "+setting, func(inv *backendv1.Inventory) bool {
				if !healthy(8)(inv) {
					t.Errorf("%s: %v", setting, sdktest.Summary(inv))
				}
				return inv.GetSettingsRevision() == r.revision
			})
		}
	})
}
