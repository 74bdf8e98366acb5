package kubelet

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// releaseLimit bounds how long the agent may take for a release: it believes a
// list of kubelet's only 30 s after an allocation, and asks every 10 s.
const releaseLimit = 40*time.Second + patience

// TestReleaseIsSeen verifies that the agent learns from kubelet's pod-resources
// API who holds a device, and that it is free again when the pod is gone.
func TestReleaseIsSeen(t *testing.T) {
	n := start(t, mock{Count: 2}, 2)
	// A kubelet without any pod may just not have heard of them yet.
	if err := n.kubelet.Admit(n.soon(), realkubelet.NewPod("bystander", nil)); err != nil {
		t.Fatal(err)
	}
	pod := n.admit("pod", gpu, 1)
	n.startContainer(pod)
	id := n.held(pod, gpu)[0]
	took := n.eventually("the agent knows the pod by name", func() bool {
		d := n.device(id)
		return len(d.Holders) == 1 && d.Holders[0].Pod == "pod" && d.Holders[0].Container == "c"
	})
	t.Logf("the holder is known after %v", took.Round(time.Millisecond))
	n.kubelet.RemovePod(pod)
	took, err := realkubelet.Poll(bounded(releaseLimit), func() bool { return len(n.device(id).Holders) == 0 })
	if err != nil {
		t.Fatalf("%s is held by %+v %v after its pod was removed", id, n.device(id).Holders, releaseLimit)
	}
	t.Logf("the release is seen after %v", took.Round(time.Millisecond))
}

// device asks the agent for one device.
func (n *node) device(id string) agent.Device {
	n.Helper()
	devices, err := n.agent.Devices(n.soon())
	if err != nil {
		n.Fatal(err)
	}
	return devices[id]
}
