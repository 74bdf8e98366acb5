package deviceplugin

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/patience"
)

// Verifies how often kubelet's directories are looked at without an event: a tenth as
// often while kubelet is there, and as often as ever when it goes.
func TestCalmPoll(t *testing.T) {
	timing := fast
	timing.Poll = 50 * time.Millisecond
	n := newNode(t, timing, false)
	looks := func() <-chan struct{} {
		_, _, changed := n.plugin.watch.current()
		return changed
	}
	// least is how long some looks in a row are apart at least.
	least := func(count int) time.Duration {
		shortest := time.Hour
		<-looks()
		for range count {
			began := time.Now()
			<-looks()
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	n.run()
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	if pause := least(20); pause >= timing.Poll*calmFactor/2 {
		t.Errorf("without a kubelet it is looked for every %v", pause)
	}
	n.startKubelet()
	n.waitAllocatable(2)
	// Its start has looks of its own, and a busy machine sees one late.
	patience.Until(t, "kubelet is looked for less often, as it is there", func() bool { return least(2) >= timing.Poll*calmFactor/2 })
	n.kubelet.Stop()
	n.waitStatus("gone", func(s Status) bool { return s.State == StateWaiting })
	if pause := least(20); pause >= timing.Poll*calmFactor/2 {
		t.Errorf("after kubelet went it is looked for every %v", pause)
	}
}
