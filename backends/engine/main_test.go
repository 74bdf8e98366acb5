package engine

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/sysroot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for, in the time of its bubble.
const patience = 5 * time.Minute

// rig is an engine behind the service of a backend, on a machine with a PCI bus.
type rig struct {
	*Engine
	*sdktest.Watched
	t      *testing.T
	sysfs  sysroot.Files
	kernel *ueventtest.Kernel
	set    *Settings
	server *sdk.Server
	lost   []string
}

// backend has the least that a service needs.
type backend struct{ *Engine }

func (backend) Identity() (name, version string) { return "fake", "1.0.0" }

func (b backend) Configure(context.Context, []byte, sdk.HostPaths) error { return nil }

// run runs a test in a bubble, with drivers that are scanned after an interval.
func run(t *testing.T, interval time.Duration, test func(r *rig), drivers ...*fake) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, sysfs: sysroot.NewFiles(t), kernel: &ueventtest.Kernel{}}
		log := slog.New(slog.DiscardHandler)
		r.Engine = New(Options{
			Log: log, Hardware: "FPGA", Unit: "card", Part: "region", Listen: r.kernel.Listen,
			Concerns:       func(e uevent.Event) bool { return e.Subsystem == "fake" || e.Subsystem == "pci" },
			ExclusiveReset: slices.ContainsFunc(drivers, func(f *fake) bool { return f.exclusive }),
		})
		r.set = &Settings{Vendor: vendor{&r.lost}, Interval: interval, Sysfs: r.sysfs.Root}
		for _, f := range drivers {
			r.set.Drivers = append(r.set.Drivers, f)
			if f.hangs {
				f.hold = make(chan struct{})
			}
			if f.required {
				r.set.SensesRequired, r.set.Sensing = true, time.Minute
			}
			for _, u := range f.result.Units {
				r.plug(u, "fake")
			}
		}
		r.Configure(r.set)
		var err error
		if r.server, err = sdk.NewServer(backend{r.Engine}, log); err != nil {
			t.Fatal(err)
		}
		r.Watched = sdktest.Watch(t, r.server, 10*time.Second, patience)
		test(r)
	})
}

// configure changes the settings while the loop runs.
func (r *rig) configure(change func(*Settings)) {
	r.t.Helper()
	next := *r.set
	change(&next)
	r.set = &next
	r.Configure(r.set)
	// Any change of the pace wakes the loop, as accepted settings do.
	if _, err := r.server.Configure(r.t.Context(), &backendv1.ConfigureRequest{SettingsJson: []byte("{}")}); err != nil {
		r.t.Fatal(err)
	}
	r.During(func() { <-time.After(10 * time.Millisecond) })
}

// plug makes the PCI function of a unit with a driver; "" for none.
func (r *rig) plug(u Unit, driver string) {
	r.t.Helper()
	r.sysfs.Remove("bus/pci/devices/" + u.PCI.Address.String() + "/driver")
	r.sysfs.PCI(".", u.PCI.Address.String(), driver, map[string]string{"vendor": "0x8086", "device": "0x0b30", "class": "0x120000"})
}

func (r *rig) function(u Unit) string {
	return r.sysfs.Path("bus/pci/devices/" + u.PCI.Address.String())
}

func (r *rig) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// event has the kernel report a change.
func (r *rig) event() { r.kernel.Send(uevent.Change, "/devices/x", "fake", nil) }

// idle returns the inventories of a time.
func (r *rig) idle(d time.Duration) []*backendv1.Inventory {
	return r.During(func() { <-time.After(d) })
}

// reset resets devices, and returns the message of the first one that did not recover.
func (r *rig) reset(devices ...string) (failed string) {
	r.t.Helper()
	r.During(func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
		defer cancel()
		results, err := r.Reset(ctx, devices)
		r.do(err)
		for _, result := range results {
			if !result.GetRecovered() {
				failed = result.GetMessage()
			}
		}
	})
	return failed
}

// codes returns the state of all devices: "a=code b= c=unknown d=recovered".
func codes(inv *backendv1.Inventory) string {
	var all []string
	for _, d := range inv.GetDevices() {
		text := d.GetHealth().GetCode()
		switch {
		case d.GetHealth().GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN:
			text = "unknown"
		case d.GetHealth().GetRecovered():
			text = "recovered"
		}
		all = append(all, d.GetId()+"="+text)
	}
	return strings.Join(all, " ")
}

// wait waits for an inventory with these codes.
func (r *rig) wait(want string) *backendv1.Inventory {
	r.t.Helper()
	if r.Last != nil && codes(r.Last) == want {
		return r.Last
	}
	return r.Until(want, func(inv *backendv1.Inventory) bool { return codes(inv) == want })
}

// problem waits for an inventory with one problem that has the text; "" for none.
func (r *rig) problem(text string) {
	r.t.Helper()
	has := func(inv *backendv1.Inventory) bool {
		p := inv.GetProblems()
		return text == "" && len(p) == 0 || text != "" && len(p) == 1 && strings.Contains(p[0], text)
	}
	if r.Last == nil || !has(r.Last) {
		r.Until("the problem "+text, has)
	}
}

func (r *rig) says(what string, err error, words ...string) {
	r.t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			r.t.Errorf("%s: %v, want %q in it", what, err, word)
		}
	}
}
