package kubelet

import (
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestPrepareTurnedOnLive verifies that devices that begin to ask for Prepare are
// registered anew without a gap, so that kubelet calls PreStartContainer.
func TestPrepareTurnedOnLive(t *testing.T) {
	const reason = "the function is not programmed"
	n := start(t, mock{Count: 2}, 2)
	before := n.admit("before", gpu, 1)
	n.startContainer(before)
	record := n.kubelet.Record(gpu, 10*time.Millisecond)
	n.configure(mock{Count: 2, Prepare: true}.config(n))
	after := n.admit("after", gpu, 1)
	n.playAndSettle(prepareError(n.held(after, gpu)[0], reason))
	n.eventually("kubelet calls PreStartContainer", func() bool {
		_, err := n.kubelet.StartContainer(n.soon(), after, "c")
		return err != nil && strings.Contains(err.Error(), reason)
	})
	n.play()
	n.eventually("Prepare works", func() bool {
		_, err := n.kubelet.StartContainer(n.soon(), after, "c")
		return err == nil
	})
	n.startContainer(before)
	n.wantNoDip(record, 2)
}

// wantNoDip ends a recording, some samples after now, in which the counts must
// never have been below least.
func (n *node) wantNoDip(record *realkubelet.Recording, least int64) {
	n.Helper()
	now := record.Samples()
	n.eventually("more samples", func() bool { return record.Samples() >= now+20 })
	samples, changes := record.Stop()
	for _, c := range changes {
		if c.Counts.Capacity < least || c.Counts.Allocatable < least {
			n.Errorf("after %v: %v; want never less than %d", c.After, c.Counts, least)
		}
	}
	n.Logf("%d samples, %d changes", samples, len(changes)-1)
}
