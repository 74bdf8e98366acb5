package nvidia

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// recoveryField is the field value of the recovery action
// (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION in nvml.h).
const recoveryField = nvml.FI_DEV_GET_GPU_RECOVERY_ACTION

// Every GPU is listed, ready for a container, with the labels of GPU feature discovery. One that
// falls off the bus affects no other: it stays listed under its name, and becomes healthy when it
// is back.
func TestInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 8)
		r := start(t, lib, 8, `{"edits": {"mode": "runtime"}, "rescan": "1s", "mig": {"strategy": "mixed"}}`)
		before := r.Until("eight healthy GPUs", healthy(8))
		for i, d := range before.GetDevices() {
			if d.GetId() != lib.GPUs[i].UUID || d.GetClass() != classGPU || d.GetPciBusId() != bus(i) {
				t.Errorf("device %d is %s of class %s at %q", i, d.GetId(), d.GetClass(), d.GetPciBusId())
			}
			if d.GetCapacities()["memory"] != 80<<30 || d.GetAttributes()["model"].GetStringValue() == "" ||
				d.GetAttributes()["driverVersion"].GetVersionValue() == "" || d.GetAttributes()["cudaDriverVersion"].GetVersionValue() == "" {
				t.Errorf("device %d has %v and %v", i, d.GetAttributes(), d.GetCapacities())
			}
			if len(d.GetEdits().GetDeviceNodes()) == 0 {
				t.Errorf("device %d gives a container nothing", i)
			}
		}
		labels := map[string]string{}
		for _, l := range before.GetNodeLabels() {
			labels[l.GetName()] = l.GetValue()
		}
		for name, want := range map[string]string{
			"nvidia.com/gpu.count": "8", "nvidia.com/gpu.family": "hopper", "nvidia.com/gpu.compute.major": "9", "nvidia.com/mig.strategy": "mixed",
		} {
			if labels[name] != want {
				t.Errorf("%s=%q, want %q", name, labels[name], want)
			}
		}
		// Settings that are refused leave the earlier ones in force.
		if res, err := r.Configure(t.Context(), r.request(`{"rescan": "1ms"}`)); err != nil || len(res.GetErrors()) != 1 {
			t.Errorf("Configure: %v, %v, want a refusal", res, err)
		}
		lib.Lose(3)
		after := r.Until("the fourth one lost", onlyBad(8, 3, "gpu-lost"))
		if !slices.Equal(ids(after), ids(before)) || len(after.GetNodeLabels()) != len(labels) {
			t.Errorf("listed are %q with %d labels, want the same as before", ids(after), len(after.GetNodeLabels()))
		}
		if recovery := healthAt(3, after).GetRecovery(); recovery != backendv1.Recovery_RECOVERY_REBOOT {
			t.Errorf("it needs %v, want a reboot", recovery)
		}
		lib.Fail(3, "", nvml.SUCCESS)
		r.Until("all healthy", healthy(8))
	})
}

// A GPU of which a reopened driver reports nothing is identified by its PCI address,
// and there is one subscription to events: each event is followed by a scan at once.
func TestDeadGPUAfterReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		r := newRig(t, lib, 2)
		r.plug(0)
		r.plug(1)
		r.configure(`{"edits": {"mode": "runtime"}, "rescan": "1h"}`)
		r.watch()
		r.Until("two healthy GPUs", healthy(2))
		r.rest(time.Minute)
		r.reopen(func() { lib.Lose(0) })
		all := ids(r.Until("one is lost", onlyBad(2, 0, "gpu-lost")))
		r.scan(all...)
		before := lib.Calls("nvmlEventSetCreate")
		for range 3 {
			r.scan(all...)
		}
		if n := lib.Calls("nvmlEventSetCreate") - before; n > 0 {
			t.Errorf("%d subscriptions though nothing changed", n)
		}
	})
}

// An XID of an application is no fault of the GPU; one that needs a reset is, until the
// driver reports that no action is needed.
func TestXID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		gpu := lib.GPUs[1]
		gpu.SetField(recoveryField, uint64(driver.RecoveryNone))
		r := start(t, lib, 2, "")
		r.Until("two healthy GPUs", healthy(2))
		gpu.SetField(recoveryField, uint64(driver.RecoveryReset))
		gpu.XID(31)
		gpu.XID(48)
		inv := r.Until("a fault of the second", func(inv *backendv1.Inventory) bool {
			return healthAt(1, inv).GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY
		})
		if h := healthAt(1, inv); h.GetRecovery() != backendv1.Recovery_RECOVERY_RESET {
			t.Errorf("it is %v, want a fault that a reset ends", h)
		}
		gpu.SetField(recoveryField, uint64(driver.RecoveryNone))
		r.Until("evidence that it is over", func(inv *backendv1.Inventory) bool {
			return healthAt(1, inv).GetRecovered()
		})
	})
}
