package nvidia

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
)

// recoveryField is the field value of the recovery action
// (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION in nvml.h).
const recoveryField = nvml.FI_DEV_GET_GPU_RECOVERY_ACTION

// Every GPU of every model is listed correctly, ready for a container.
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

// A GPU that falls off the bus affects no other: it stays listed under its name, the
// others stay healthy, and it becomes healthy when it is back.
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

// A GPU of which a reopened driver reports nothing is identified by its PCI address,
// and there is one subscription to events: each event is followed by a scan at once.
func TestDeadGPUAfterReload(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	r := newRig(t, lib, 2)
	r.plug(0)
	r.plug(1)
	r.configure(`{"edits": {"mode": "runtime"}, "rescan": "1h"}`)
	r.watch()
	r.inventory("two healthy GPUs", healthy(2))
	r.reopen(func() { lib.Lose(0) })
	all := ids(r.inventory("one is lost", onlyBad(2, 0, "gpu-lost")))
	r.scan(all...)
	before := lib.Calls("nvmlEventSetCreate")
	for range 3 {
		r.scan(all...)
	}
	if n := lib.Calls("nvmlEventSetCreate") - before; n > 0 {
		t.Errorf("%d subscriptions though nothing changed", n)
	}
}

// A GPU that was lost before the backend started, and that cannot be identified, is a
// problem and affects no other.
func TestLostFromTheStart(t *testing.T) {
	lib := drivertest.New("H100 80GB", 4)
	lib.Lose(1)
	r := start(t, lib, 4, "")
	inv := r.inventory("three healthy GPUs", healthy(3))
	if len(inv.GetProblems()) != 1 || !strings.Contains(inv.GetProblems()[0], "lost") {
		t.Errorf("problems are %q, want one that says that a GPU is lost", inv.GetProblems())
	}
}

// After an event all GPUs are scanned: what happened to the others may have had no event.
func TestOthersAfterEvent(t *testing.T) {
	lib := drivertest.New("H100 80GB", 8)
	r := start(t, lib, 8, `{"edits": {"mode": "runtime"}, "rescan": "1h"}`)
	r.scan(ids(r.inventory("eight healthy GPUs", healthy(8)))...)
	lib.Lose(6)
	lib.GPUs[2].XID(79)
	r.inventory("both", func(inv *backendv1.Inventory) bool {
		return healthAt(2, inv).GetCode() == "xid-79" && healthAt(6, inv).GetCode() == "gpu-lost"
	})
}

// An XID of an application is no fault of the GPU; one that needs a reset is, until the
// driver reports that no action is needed.
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

// A call that hangs affects only its GPU, whose health is unknown until it answers.
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

// A driver that did not answer for a while is no evidence that a fault is cleared.
func TestHungDriverEndsNoFault(t *testing.T) {
	lib := drivertest.New("H100 80GB", 2)
	r := start(t, lib, 2, "")
	all := ids(r.inventory("two healthy GPUs", healthy(2)))
	lib.GPUs[0].XID(79)
	r.inventory("XID 79", onlyBad(2, 0, "xid-79"))
	release := lib.Hang(-1, "nvmlDeviceGetCount")
	for r.scan(all...).Err == nil {
	}
	release()
	var seen engine.Seen
	patience.Until(t, "the driver answers", func() bool {
		seen = r.scan(all...)
		return seen.Err == nil
	})
	if code := seen.Devices[all[0]].GetHealth().GetCode(); code != "xid-79" {
		t.Errorf("after it the fault is %q", code)
	}
}

// A driver that is loaded late is found. A node without a GPU has no problem; one with GPUs
// has a problem that explains why it lists none.
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

// Settings that the schema cannot refuse are refused with the field's path, and the earlier
// ones stay in force.
func TestSettingsAreStrict(t *testing.T) {
	lib := drivertest.New("H100 80GB", 1)
	r := start(t, lib, 1, "")
	r.inventory("a healthy GPU", healthy(1))
	for settings, field := range map[string]string{
		`{"rescan": "1ms"}`: "rescan",
		`{"edits": {"driverRoot": "/no/such/directory"}}`: "edits.driverRoot",
		`{"prepare": {"leftovers": "kill"}}`:              "prepare.leftovers",
		`{"prepare": {"leftovers": "fail"}}`:              "prepare.leftovers", // not in the host's PID namespace
		`{"prepare": {"maxMemoryUsedMiB": -1}}`:           "prepare.maxMemoryUsedMiB",
		`{"reset": {"method": "hammer"}}`:                 "reset.method",
		`{"reset": {"tool": "nvidia-smi"}}`:               "reset.tool",
		`{"reset": {"tool": "/../bin/nvidia-sm"}}`:        "reset.tool",
	} {
		errs := r.refused(settings)
		if len(errs) == 0 || !strings.HasPrefix(errs[0].GetField(), field) {
			t.Errorf("Configure(%s) = %v, want a refusal of %s", settings, errs, field)
		}
	}
}

// MIG devices are created and destroyed while the backend runs, and listed by the strategy.
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
