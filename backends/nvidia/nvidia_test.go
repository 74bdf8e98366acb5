package nvidia

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
)

// recoveryField is the field value of the recovery action
// (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION in nvml.h).
const recoveryField = nvml.FI_DEV_GET_GPU_RECOVERY_ACTION

// Every GPU of every model is listed as it is, ready for a container.
func TestEnumeration(t *testing.T) {
	for model := range drivertest.Models {
		t.Run(model, func(t *testing.T) {
			r := start(t, drivertest.New(model, 8), 8, "")
			inv := r.inventory("eight healthy GPUs", healthy(8))
			seen := map[string]bool{}
			for i, d := range inv.GetDevices() {
				seen[d.GetId()] = true
				if !strings.HasPrefix(d.GetId(), "GPU-") || d.GetClass() != classGPU || d.GetPciBusId() == "" {
					t.Errorf("device %d is %s of class %s at %q", i, d.GetId(), d.GetClass(), d.GetPciBusId())
				}
				if d.GetCapacities()["memory"] <= 0 || d.GetAttributes()["model"].GetStringValue() == "" ||
					d.GetAttributes()["driverVersion"].GetVersionValue() == "" {
					t.Errorf("device %d has %v and %v", i, d.GetAttributes(), d.GetCapacities())
				}
				if len(d.GetEdits().GetDeviceNodes()) == 0 {
					t.Errorf("device %d gives a container nothing", i)
				}
			}
			if len(seen) != 8 {
				t.Errorf("%d different IDs, want 8", len(seen))
			}
		})
	}
}

// A GPU that falls off the bus costs itself: it stays listed under its name, the
// others stay healthy, and when it is back it is healthy again.
func TestLostGPU(t *testing.T) {
	lib := drivertest.New("H100 80GB", 8)
	r := start(t, lib, 8, "")
	before := r.inventory("eight healthy GPUs", healthy(8))
	lib.Lose(3)
	after := r.inventory("the fourth one lost", onlyBad(8, 3, "gpu-lost"))
	if got, want := after.GetDevices()[3].GetId(), before.GetDevices()[3].GetId(); got != want {
		t.Errorf("the lost GPU is listed as %s, want %s", got, want)
	}
	if recovery := healthAt(3, after).GetRecovery(); recovery != backendv1.Recovery_RECOVERY_REBOOT {
		t.Errorf("it needs %v, want a reboot", recovery)
	}
	lib.Fail(3, "", nvml.SUCCESS)
	r.inventory("all healthy", healthy(8))
}

// A GPU of which a driver that was opened again says nothing keeps its identity by its
// place on the bus, and the driver is listened to once: each time is followed by a look
// at once.
func TestDeadGPUAfterReload(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	r := newRig(t, lib, 2)
	r.plug(0)
	r.plug(1)
	r.configure(`{"edits": {"mode": "runtime"}, "rescan": "1h"}`)
	r.watch()
	r.inventory("two healthy GPUs", healthy(2))
	h, err := r.backend.keep(t.Context())
	if err == nil {
		err = h.driver.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	lib.Lose(0)
	if _, err := r.backend.giveBack(t.Context(), h, nil); err != nil {
		t.Fatal(err)
	}
	r.inventory("one is lost", onlyBad(2, 0, "gpu-lost"))
	if _, err := r.backend.lookNow(t.Context()); err != nil { // all is listened to by now
		t.Fatal(err)
	}
	before := lib.Calls("nvmlEventSetCreate")
	for range 3 {
		if _, err := r.backend.lookNow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := lib.Calls("nvmlEventSetCreate") - before; n > 0 {
		t.Errorf("it was listened anew %d times though nothing changed", n)
	}
}

// A GPU that was lost before the backend came, and that nobody can identify, is a
// problem and costs no other.
func TestLostFromTheStart(t *testing.T) {
	lib := drivertest.New("H100 80GB", 4)
	lib.Lose(1)
	r := start(t, lib, 4, "")
	inv := r.inventory("three healthy GPUs", healthy(3))
	if len(inv.GetProblems()) != 1 || !strings.Contains(inv.GetProblems()[0], "lost") {
		t.Errorf("problems are %q, want one that says that a GPU is lost", inv.GetProblems())
	}
}

// After an event its GPU is asked at once, and the others soon, not at the next
// rescan: what happened to them may have had no event.
func TestOthersAfterEvent(t *testing.T) {
	lib := drivertest.New("H100 80GB", 8)
	r := start(t, lib, 8, `{"edits": {"mode": "runtime"}, "rescan": "1h"}`)
	r.inventory("eight healthy GPUs", healthy(8))
	if _, err := r.backend.lookNow(t.Context()); err != nil { // all is listened to by now
		t.Fatal(err)
	}
	before := lib.Calls("nvmlDeviceGetUUID")
	lib.Lose(6)
	lib.GPUs[2].XID(79)
	r.inventory("one GPU with a fault", onlyBad(8, 2, "xid-79"))
	if n := lib.Calls("nvmlDeviceGetUUID") - before; n != 1 {
		t.Errorf("%d GPUs were asked for the event of one", n)
	}
	r.inventory("the lost GPU", func(inv *backendv1.Inventory) bool { return healthAt(6, inv).GetCode() == "gpu-lost" })
}

// An XID of the application is none of the GPU's; one that needs a reset is, until
// the driver says that nothing is to be done.
func TestXID(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	gpu := lib.GPUs[1]
	gpu.SetField(recoveryField, uint64(driver.RecoveryNone))
	r := start(t, lib, 2, "")
	r.inventory("two healthy GPUs", healthy(2))
	gpu.SetField(recoveryField, uint64(driver.RecoveryReset))
	gpu.XID(31)
	gpu.XID(48)
	inv := r.inventory("a fault of the second", func(inv *backendv1.Inventory) bool {
		return healthAt(1, inv).GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY
	})
	if h := healthAt(1, inv); h.GetRecovery() != backendv1.Recovery_RECOVERY_RESET {
		t.Errorf("it is %v, want a fault that a reset ends", h)
	}
	gpu.SetField(recoveryField, uint64(driver.RecoveryNone))
	r.inventory("evidence that it is over", func(inv *backendv1.Inventory) bool {
		return healthAt(1, inv).GetRecovered()
	})
}

// Where the driver has no recovery action, the table decides, and the fault stays.
func TestXIDByTheTable(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	r := start(t, lib, 2, "")
	r.inventory("two healthy GPUs", healthy(2))
	lib.GPUs[0].XID(79)
	inv := r.inventory("XID 79", onlyBad(2, 0, "xid-79"))
	if recovery := healthAt(0, inv).GetRecovery(); recovery != backendv1.Recovery_RECOVERY_REBOOT {
		t.Errorf("it needs %v, want a reboot", recovery)
	}
	// A lesser one does not hide it.
	lib.GPUs[0].XID(48)
	lib.GPUs[1].XID(95)
	r.inventory("both", func(inv *backendv1.Inventory) bool {
		return healthAt(0, inv).GetCode() == "xid-79" && healthAt(1, inv).GetCode() == "xid-95"
	})
}

// A call that hangs costs its own GPU, which is unknown until it answers.
func TestHang(t *testing.T) {
	lib := drivertest.New("H100 80GB", 4)
	r := start(t, lib, 4, "")
	r.inventory("four healthy GPUs", healthy(4))
	release := lib.Hang(2, "")
	inv := r.inventory("the third one does not answer", func(inv *backendv1.Inventory) bool {
		return healthAt(2, inv).GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN
	})
	for _, i := range []int{0, 1, 3} {
		if healthAt(i, inv).GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
			t.Errorf("GPU %d is %v, want it healthy", i, healthAt(i, inv))
		}
	}
	release()
	r.inventory("all healthy", healthy(4))
}

// A driver that is unloaded makes its GPUs unhealthy, and a driver that is loaded
// again brings them back without a restart.
func TestDriverReload(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	r := start(t, lib, 2, "")
	r.inventory("two healthy GPUs", healthy(2))
	lib.Unload()
	r.inventory("no driver", func(inv *backendv1.Inventory) bool {
		return healthAt(0, inv).GetCode() == "driver-away" && healthAt(1, inv).GetCode() == "driver-away"
	})
	lib.Reload()
	r.inventory("two healthy GPUs again", healthy(2))
}

// A driver that did not answer for a while is no evidence that a fault is over.
func TestHungDriverEndsNoFault(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	r := start(t, lib, 2, "")
	all := ids(r.inventory("two healthy GPUs", healthy(2)))
	lib.GPUs[0].XID(79)
	r.inventory("XID 79", onlyBad(2, 0, "xid-79"))
	release := lib.Hang(-1, "nvmlDeviceGetCount")
	look := func() *found {
		t.Helper()
		seen, err := r.backend.lookNow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	for look().away == nil {
	}
	release()
	var seen *found
	patience.Until(t, "the driver answers", func() bool {
		seen = look()
		return seen.away == nil
	})
	if code := seen.devices[all[0]].GetHealth().GetCode(); code != "xid-79" {
		t.Errorf("after it the fault is %q", code)
	}
}

// A driver that comes late is waited for. A node that has no GPU says nothing, one
// that has says why it lists none.
func TestDriverComesLate(t *testing.T) {
	for name, gpu := range map[string]bool{"without a GPU": false, "with a GPU": true} {
		t.Run(name, func(t *testing.T) {
			lib := drivertest.New("H100 80GB", 2)
			lib.Unload()
			r := newRig(t, lib, 2)
			if gpu {
				for file, text := range map[string]string{"vendor": "0x10de", "device": "0x2330", "class": "0x030200"} {
					r.file(text+"\n", "sys", "bus", "pci", "devices", "0000:65:00.0", file)
				}
			}
			r.configure("")
			r.watch()
			inv := r.inventory("nothing", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 0 })
			if told := len(inv.GetProblems()) > 0; told != gpu {
				t.Errorf("problems are %q", inv.GetProblems())
			}
			lib.Reload()
			r.inventory("two healthy GPUs", healthy(2))
		})
	}
}

// Settings that make no sense are refused with the field's path, and those from
// before stay in force.
func TestSettingsAreStrict(t *testing.T) {
	lib := drivertest.New("H100 80GB", 1)
	r := start(t, lib, 1, "")
	r.inventory("a healthy GPU", healthy(1))
	for settings, field := range map[string]string{
		`{"mig": {"strategy": "some"}}`:                   "mig.strategy",
		`{"mgi": {}}`:                                     "mgi",
		`{"rescan": "1ms"}`:                               "rescan",
		`{"rescan": "soon"}`:                              "rescan",
		`{"xid": {"rows": {"seventy-nine": "ignore"}}}`:   "xid.rows",
		`{"edits": {"driverRoot": "/no/such/directory"}}`: "edits.driverRoot",
	} {
		errs := r.refused(settings)
		if len(errs) == 0 || !strings.HasPrefix(errs[0].GetField(), field) {
			t.Errorf("Configure(%s) = %v, want a refusal of %s", settings, errs, field)
		}
	}
}

// MIG devices come and go while the backend runs, as the strategy says.
func TestMIG(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	r := newRig(t, lib, 2)
	r.configure(`{"edits": {"mode": "runtime"}, "rescan": "1s", "mig": {"strategy": "mixed"}}`)
	r.watch()
	r.inventory("two healthy GPUs", healthy(2))
	lib.GPUs[0].SetMIG(true,
		&drivertest.Instance{UUID: "MIG-aaaaaaaa-0000-0000-0000-000000000001", GPUInstance: 1},
		&drivertest.Instance{UUID: "MIG-aaaaaaaa-0000-0000-0000-000000000002", GPUInstance: 2},
	)
	inv := r.inventory("two MIG devices beside a GPU", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 3 })
	if d := inv.GetDevices()[0]; d.GetClass() != classMIG || !strings.HasPrefix(d.GetParentId(), "GPU-") {
		t.Errorf("the first device is of class %s and of %q", d.GetClass(), d.GetParentId())
	}
	lib.GPUs[0].SetMIG(false)
	r.inventory("two GPUs again", healthy(2))
}

// A GPU that is plugged in while the backend runs is found by the kernel's word: NVML
// counts GPUs when it is opened, so it is opened anew, and events and looks are as before.
func TestHotPlug(t *testing.T) {
	lib := drivertest.New("H100 80GB", 3)
	lib.Plug(2)
	r := newRig(t, lib, 3)
	r.plug(0)
	r.plug(1)
	r.configure("")
	r.watch()
	r.inventory("two healthy GPUs", healthy(2))
	lib.Plug(3)
	r.plug(2)
	r.tells(uevent.Bind, 2)
	r.inventory("three healthy GPUs", healthy(3))
	// The new session must have read a GPU before it dies: NVML does not say who the
	// dead are, and this node has no PCI bus that would.
	if _, err := r.backend.lookNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	lib.GPUs[2].XID(79)
	r.inventory("an event", onlyBad(3, 2, "xid-79"))
	lib.Lose(1)
	r.inventory("a look", func(inv *backendv1.Inventory) bool {
		return len(inv.GetDevices()) == 3 && healthAt(2, inv).GetCode() == "xid-79" && healthAt(1, inv).GetCode() == "gpu-lost"
	})
}
