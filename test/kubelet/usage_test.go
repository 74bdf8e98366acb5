package kubelet

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestReleaseIsSeen verifies that the agent learns from kubelet who holds a device, and
// that it is free again when the pod is gone. A pod that no list ever named is gone when
// the checkpoint does not have it, unlike an init container, which no list names either.
// A pod that was listed is ending from the first list without it to the second.
func TestReleaseIsSeen(t *testing.T) {
	n := start(t, mock{Count: 2}, 2)
	// With this pod no list is empty: the agent believes an empty one only after minutes.
	waiting := realkubelet.NewPod("waiting", nil)
	container := realkubelet.NewPod("", map[string]int64{gpu: 1}).Spec.Containers[0]
	container.Name = "init"
	waiting.Spec.InitContainers = []v1.Container{container}
	deleted := n.admit("deleted", gpu, 1)
	id := n.held(deleted, gpu)[0]
	// The last one: kubelet 1.26 and 1.28 keep the devices of a pod that is gone until
	// they admit another one (pendingAdmissionPod in cm/devicemanager/manager.go).
	if err := n.kubelet.Admit(n.soon(), waiting); err != nil {
		t.Fatal(err)
	}
	n.kubelet.RemovePod(deleted)
	if holders := n.device(id).Holders; len(holders) != 1 || holders[0].Pod != "" {
		t.Fatalf("%s is held by %+v; want a container that kubelet has not named", id, holders)
	}
	n.wantReleased(id)
	for other, d := range n.devices() {
		if other != id && len(d.Holders) != 1 {
			t.Errorf("%s has the holders %+v; want the init container", other, d.Holders)
		}
	}
	if status, err := n.agent.Status(n.soon()); err != nil || len(status.Problems) > 0 {
		t.Errorf("problems after the release are %+v, %v; want none", status.Problems, err)
	}

	// The lists are a second apart, which a test on a busy machine may miss.
	for tries, ending := 0, false; !ending; tries++ {
		if tries == 3 {
			t.Fatal("no pod was ending before its release")
		}
		pod := n.admit("pod", gpu, 1)
		n.startContainer(pod)
		took := n.eventually("the agent knows the pod by name", func() bool {
			holders := n.device(id).Holders
			return len(holders) == 1 && holders[0].Pod == "pod" && holders[0].Container == "c" && !holders[0].Ending
		})
		t.Logf("the holder is known after %v", took.Round(time.Millisecond))
		n.kubelet.RemovePod(pod)
		n.eventually("the pod is ending or gone", func() bool {
			holders := n.device(id).Holders
			ending = len(holders) == 1 && holders[0].Ending
			return ending || len(holders) == 0
		})
		n.wantReleased(id)
	}
}

// wantReleased waits until no container holds the device.
func (n *node) wantReleased(id string) {
	n.Helper()
	took := n.eventually("the release of "+id, func() bool { return len(n.device(id).Holders) == 0 })
	n.Logf("the release is seen after %v", took.Round(time.Millisecond))
}

// device asks the agent for one device.
func (n *node) device(id string) listing.Device {
	n.Helper()
	return n.devices()[id]
}

// devices asks the agent for all of them, by ID.
func (n *node) devices() map[string]listing.Device {
	n.Helper()
	devices, err := n.agent.Devices(n.soon())
	if err != nil {
		n.Fatal(err)
	}
	return devices
}
