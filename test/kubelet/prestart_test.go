package kubelet

import (
	"context"
	"testing"
	"time"
)

// TestPrepareSlow verifies that a container's start waits for its device's
// Prepare, and that another container's does not.
func TestPrepareSlow(t *testing.T) {
	n := start(t, mock{Count: 2, Prepare: true}, 2)
	slow, quick := n.admit("slow", gpu, 1), n.admit("quick", gpu, 1)
	const delay = 12 * time.Second // many times what a start takes, and less than half of what kubelet waits
	n.playAndSettle(prepareDelay(n.held(slow, gpu)[0], delay))
	result := make(chan error, 1)
	delayed := n.agent.Printed("the scenario delays a call", n.held(slow, gpu)[0])
	start := time.Now()
	go func() {
		_, err := n.kubelet.StartContainer(context.WithoutCancel(t.Context()), slow, "c")
		result <- err
	}()
	select {
	case <-delayed:
	case <-n.soon().Done():
		t.Fatal("the backend does not prepare the device")
	}
	n.startContainer(quick)
	if took := time.Since(start); took >= delay {
		t.Errorf("the other container's start took %v", took)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < delay {
		t.Errorf("the start took %v; want it to wait %v for Prepare", took, delay)
	}
}
