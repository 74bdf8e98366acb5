package deviceplugin

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/patience"
)

// Verifies how often kubelet's directories are polled without an event: a tenth as
// often while kubelet is there, and as often as ever when it goes.
func TestCalmPoll(t *testing.T) {
	timing := fast
	timing.Poll = 50 * time.Millisecond
	n := newNode(t, timing, false)
	polls := func() <-chan struct{} {
		_, _, changed := n.plugin.watch.current()
		return changed
	}
	// least is the least time between some polls in a row.
	least := func(count int) time.Duration {
		shortest := time.Hour
		<-polls()
		for range count {
			began := time.Now()
			<-polls()
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	n.run()
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	if pause := least(20); pause >= timing.Poll*calmFactor/2 {
		t.Errorf("without a kubelet it is polled every %v", pause)
	}
	n.startKubelet()
	n.waitAllocatable(2)
	// Its start causes further polls, and a busy machine may be late with one.
	patience.Until(t, "the interval is longer while kubelet's socket exists", func() bool { return least(2) >= timing.Poll*calmFactor/2 })
	n.kubelet.Stop()
	n.waitStatus("gone", func(s Status) bool { return s.State == StateWaiting })
	if pause := least(20); pause >= timing.Poll*calmFactor/2 {
		t.Errorf("after kubelet stopped it is polled every %v", pause)
	}
}
