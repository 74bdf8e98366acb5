package nvidia

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// rarely sets an interval at which no periodic scan happens during a test.
const rarely = `{"edits": {"mode": "runtime"}, "rescan": "1h"}`

// reopening is the limit of opening a driver again: before it can be closed, a wait
// for events must end.
const reopening = 5 * time.Second

// tells sends an event of the kernel about a GPU.
func (r *rig) tells(action uevent.Action, i int) {
	r.kernel.Send(action, "/devices/pci0000:00/"+bus(i), "pci", map[string]string{"PCI_CLASS": "30200", "PCI_ID": "10DE:2330"})
}

// within checks that f takes no longer than a limit, in the bubble's time.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v, want %v at most", what, took, limit)
	}
}

// rest lets the bubble's time pass.
func (r *rig) rest(d time.Duration) {
	r.t.Helper()
	for over := time.After(d); ; {
		select {
		case <-r.Events:
		case <-over:
			return
		}
	}
}

func TestConcerns(t *testing.T) {
	gpu := map[string]string{"PCI_CLASS": "30200", "PCI_ID": "10DE:2330"}
	for _, c := range []struct {
		subsystem, path string
		properties      map[string]string
		want            bool
	}{
		{"pci", "/devices/pci0000:00/0000:10:00.0", gpu, true},
		{"pci", "/devices/x", map[string]string{"PCI_CLASS": "30000", "PCI_ID": "10DE:2230"}, true},
		{"pci", "/devices/x", map[string]string{"PCI_CLASS": "30200", "PCI_ID": "1002:74A1"}, false},
		{"pci", "/devices/x", map[string]string{"PCI_CLASS": "68000", "PCI_ID": "10DE:22A3"}, false}, // NVSwitch
		{"pci", "/devices/x", map[string]string{"PCI_ID": "10DE:2330"}, false},
		{"drm", "/devices/x", gpu, false},
		{"module", "/module/nvidia", nil, true},
		{"module", "/module/nvidia_uvm", nil, true},
		{"module", "/module/amdgpu", nil, false},
		{"net", "/devices/virtual/net/veth0", nil, false},
	} {
		if got := concerns(uevent.Event{Subsystem: c.subsystem, DevPath: c.path, Properties: c.properties}); got != c.want {
			t.Errorf("%s of %s with %v concerns us: %v, want %v", c.path, c.subsystem, c.properties, got, c.want)
		}
	}
}

// "Driver loads late: waiting indefinitely": a driver that is loaded late, or loaded
// again, is found within about a second, however long the pauses between tries have
// become. A node without a GPU has no problem.
func TestLateDriverIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		lib.Unload()
		r := newRig(t, lib, 2)
		r.configure(rarely)
		r.watch()
		inv := r.Until("nothing", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 0 })
		if p := inv.GetProblems(); len(p) > 0 {
			t.Errorf("problems are %q though there is no GPU", p)
		}
		load := func() {
			r.rest(5 * time.Minute)
			tries := lib.Calls("nvmlInit_v2")
			for lib.Calls("nvmlInit_v2") == tries { // then the next try is far away
				r.rest(10 * time.Millisecond)
			}
			r.kernel.Send(uevent.Add, "/module/nvidia", "module", nil)
			lib.Reload()
			within(t, 1500*time.Millisecond, "finding the driver", func() { r.Until("two healthy GPUs", healthy(2)) })
		}
		load()
		lib.Unload()
		r.kernel.Send(uevent.Remove, "/module/nvidia", "module", nil)
		within(t, 1500*time.Millisecond, "missing the driver", func() {
			r.Until("no driver", func(inv *backendv1.Inventory) bool {
				return healthAt(0, inv).GetCode() == "driver-away" && healthAt(1, inv).GetCode() == "driver-away"
			})
		})
		load()
	})
}

// A process that begins while the driver is away does not say that there are no GPUs: those on the PCI bus, and if that cannot be
// listed all, could not be looked at.
func TestNewProcessWithoutDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		lib.Unload()
		r := newRig(t, lib, 2)
		r.plug(0)
		r.plug(1)
		r.configure("")
		r.watch()
		unread := func(places ...string) {
			t.Helper()
			r.Until(fmt.Sprintf("unread at %q", places), func(inv *backendv1.Inventory) bool {
				return slices.EqualFunc(places, inv.GetUnread(), func(at string, u *backendv1.Unread) bool {
					return u.GetPciBusId() == at && u.GetDeviceId() == "" && u.GetReason() != ""
				})
			})
		}
		unread(bus(0), bus(1))
		if err := errors.Join(os.Rename(r.path("sys/bus/pci/devices"), r.path("sys/away")), os.WriteFile(r.path("sys/bus/pci/devices"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		unread("")
		if err := errors.Join(os.Remove(r.path("sys/bus/pci/devices")), os.Rename(r.path("sys/away"), r.path("sys/bus/pci/devices"))); err != nil {
			t.Fatal(err)
		}
		lib.Reload()
		r.Until("two healthy GPUs", func(inv *backendv1.Inventory) bool { return healthy(2)(inv) && len(inv.GetUnread()) == 0 })
	})
}

// A GPU that is unplugged is not reported as lost, which would need a reboot: NVML, which lists it
// until it is opened again, calls it lost. So is the only GPU, which comes back when it is plugged in.
func TestUnpluggedIsNotLost(t *testing.T) {
	for gpus := 1; gpus <= 2; gpus++ {
		synctest.Test(t, func(t *testing.T) {
			lib, last := drivertest.New("H100 80GB", gpus), gpus-1
			r := newRig(t, lib, gpus)
			for i := range gpus {
				r.plug(i)
			}
			r.configure(rarely)
			r.watch()
			r.Until("all GPUs are healthy", healthy(gpus))
			r.rest(time.Minute)

			lib.Lose(last)
			lib.Plug(last)
			if err := os.RemoveAll(r.path("sys", "bus", "pci", "devices", bus(last))); err != nil {
				t.Fatal(err)
			}
			r.tells(uevent.Remove, last)
			r.Until("one is gone", func(inv *backendv1.Inventory) bool {
				for i := range inv.GetDevices() {
					if code := healthAt(i, inv).GetCode(); code != "" {
						t.Errorf("GPU %d has the fault %s", i, code)
					}
				}
				return len(inv.GetDevices()) == last
			})
			r.rest(time.Minute)

			lib.Fail(last, "", nvml.SUCCESS)
			lib.Plug(gpus)
			r.plug(last)
			r.tells(uevent.Bind, last)
			within(t, reopening, "finding the GPU", func() { r.Until("all are healthy again", healthy(gpus)) })
		})
	}
}

func instance(n int) *drivertest.Instance {
	return &drivertest.Instance{UUID: fmt.Sprintf("MIG-aaaaaaaa-0000-0000-0000-%012d", n), GPUInstance: n}
}

// capability makes the files and nodes of a MIG device.
func (r *rig) capability(gpu, n int) {
	r.t.Helper()
	dir := fmt.Sprintf("driver/nvidia/capabilities/gpu%d/mig/gi%d", gpu, n)
	for i, file := range []string{dir + "/access", dir + "/ci0/access"} {
		r.file(fmt.Sprintf("DeviceFileMinor: %d\n", 2*n+i), "proc", file)
		r.file("", "dev", "nvidia-caps", fmt.Sprintf("nvidia-cap%d", 2*n+i))
	}
}

// "A partition or MIG change needs a restart of the plugin": a changed layout is
// listed at once, because of NVML's event, although the change has several steps and
// the device nodes are created late.
func TestMIGIsListedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		r := start(t, lib, 2, `{"edits": {"mode": "runtime"}, "rescan": "1h", "mig": {"strategy": "mixed"}}`)
		r.Until("two healthy GPUs", healthy(2))
		r.rest(time.Minute)
		scans := lib.Calls("nvmlDeviceGetCount")
		changes := func(instances ...*drivertest.Instance) {
			lib.GPUs[0].SetMIG(true, instances...)
			lib.GPUs[0].Send(nvml.EventMigConfigChange, 0, driver.Whole, driver.Whole)
		}
		for n := range 3 { // the GPU instance, and the compute instance in it
			changes([]*drivertest.Instance{instance(1), instance(2), instance(3)}[:n+1]...)
			changes([]*drivertest.Instance{instance(1), instance(2), instance(3)}[:n+1]...)
		}
		within(t, 1500*time.Millisecond, "listing them", func() {
			r.Until("three MIG devices", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 4 })
		})
		r.rest(3 * time.Second)
		if n := lib.Calls("nvmlDeviceGetCount") - scans; n > 5 { // the change, its confirmation, and three for the missing nodes
			t.Errorf("it took %d scans", n)
		}
		for n := range 3 {
			r.capability(0, n+1)
		}
		within(t, 4*time.Second, "finding the nodes", func() {
			r.Until("what a container needs", func(inv *backendv1.Inventory) bool {
				return !slices.ContainsFunc(inv.GetDevices(), func(d *backendv1.Device) bool { return d.GetEdits() == nil })
			})
		})
		r.rest(time.Minute)
		changes(instance(2))
		within(t, 1500*time.Millisecond, "missing them", func() {
			r.Until("one MIG device", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 2 })
		})
	})
}

// Verifies that an event has only its GPU read: a fault is reported at once although another GPU
// hangs, which delays a scan of all GPUs. A call that hangs makes the health of its GPU unknown
// until it answers, and affects no other.
func TestFaultBesideAGPUThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 3)
		r := start(t, lib, 3, rarely)
		r.Until("three healthy GPUs", healthy(3))
		r.rest(time.Minute)
		release := lib.Hang(2, "")
		lib.GPUs[0].XID(79)
		within(t, 100*time.Millisecond, "reporting the fault", func() { r.Until("XID 79", onlyBad(3, 0, "xid-79")) })
		// A scan follows, though no event announced the change of the third GPU.
		within(t, 5*time.Second, "the scan", func() {
			inv := r.Until("the third does not answer", func(inv *backendv1.Inventory) bool {
				return healthAt(2, inv).GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN
			})
			if healthAt(1, inv).GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
				t.Errorf("the second is %v, want it healthy", healthAt(1, inv))
			}
		})
		release()
		r.tells(uevent.Change, 2)
		r.Until("the third answers", func(inv *backendv1.Inventory) bool {
			return healthAt(2, inv).GetState() == backendv1.HealthState_HEALTH_STATE_HEALTHY
		})
	})
}
