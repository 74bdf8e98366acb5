package nvidia

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// An event of a GPU that the loop does not know yet, as the scan that found it is in progress, is kept for a while.
func TestEventBeforeItsGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		lib.Plug(1)
		r := start(t, lib, 2, rarely)
		r.Until("a healthy GPU", healthy(1))
		r.rest(time.Minute)
		s, e := source{r.backend, r.backend.config()}, driver.Event{Type: driver.EventXID, XID: 79, GPU: lib.GPUs[1].UUID, Time: time.Now()}
		strange := s.take([]driver.Event{e})
		if len(strange) != 1 {
			t.Fatal("the event is lost")
		}
		r.reopen(func() { lib.Plug(2) })
		r.Until("the other GPU", healthy(2))
		if strange = s.take(strange); len(strange) > 0 {
			t.Error("the event is not taken")
		}
		r.Until("its fault", onlyBad(2, 1, "xid-79"))
		e.GPU = "GPU-no"
		r.rest(2 * strangeLimit)
		if strange = s.take([]driver.Event{e}); len(strange) > 0 {
			t.Error("an event of no GPU is kept for ever")
		}
	})
}

// A GPU of which the driver sends no events is a problem, and is read every 5 s, so that its loss is found; it is registered
// again, and its events come then. Those of the other GPU come all the time.
func TestRegistrationThatFails(t *testing.T) {
	for _, ret := range []nvml.Return{nvml.ERROR_UNKNOWN, nvml.ERROR_NO_PERMISSION} {
		synctest.Test(t, func(t *testing.T) {
			lib := drivertest.New("H100 80GB", 2)
			lib.Fail(1, "nvmlDeviceRegisterEvents", ret)
			r := start(t, lib, 2, rarely)
			inv := r.Until("healthy GPUs, with a problem", func(inv *backendv1.Inventory) bool { return healthy(2)(inv) && len(inv.GetProblems()) > 0 })
			if p := inv.GetProblems(); len(p) != 1 || !strings.HasPrefix(p[0], lib.GPUs[1].UUID+": the driver sends no events") {
				t.Errorf("problems are %q", p)
			}
			r.rest(time.Minute)
			lib.GPUs[0].XID(48)
			within(t, time.Second, "the fault of the other", func() { r.Until("XID 48", onlyBad(2, 0, "xid-48")) })
			lib.Lose(1)
			within(t, 6*time.Second, "finding the loss", func() {
				r.Until("it is lost", func(inv *backendv1.Inventory) bool { return healthAt(1, inv).GetCode() == "gpu-lost" })
			})
			lib.Fail(1, "", nvml.SUCCESS)
			lib.Fail(1, "nvmlDeviceRegisterEvents", nvml.SUCCESS)
			r.tells(uevent.Change, 1)
			r.Until("no problem", func(inv *backendv1.Inventory) bool {
				return len(inv.GetProblems()) == 0 && healthAt(1, inv).GetCode() == ""
			})
			r.rest(time.Minute)
			lib.GPUs[1].XID(79)
			within(t, time.Second, "its fault", func() {
				r.Until("XID 79", func(inv *backendv1.Inventory) bool { return healthAt(1, inv).GetCode() == "xid-79" })
			})
			if n := lib.Sets(); n != 1 {
				t.Errorf("%d sets of events", n)
			}
		})
	}
}
