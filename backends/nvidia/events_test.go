package nvidia

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
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
