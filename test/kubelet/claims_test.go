package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestClaimReachesTheContainer verifies that a claim's devices reach the container by their CDI names,
// and are free when the pod has ended.
func TestClaimReachesTheContainer(t *testing.T) {
	n := startClaims(t, mock{Count: 4})
	claim := n.claim("claim", class, 2)
	pod := n.schedule("pod", claim)
	n.wantNames(n.prepare(pod), "mock", claim)
	ids := n.ids(claim)
	n.wantHeld(true, ids...)
	n.finish(pod)
	n.wantHeld(false, ids...)
	second := n.claim("second", class, 4)
	n.wantNames(n.prepare(n.schedule("second", second)), "mock", second)
}

// TestUnpreparedDeviceIsReleased verifies that the backend releases a device when its claim was
// unprepared, and that no other claim gets it before that.
func TestUnpreparedDeviceIsReleased(t *testing.T) {
	n := startClaims(t, mock{Count: 1, Prepare: true, Release: true})
	claim := n.claim("first", class, 1)
	pod := n.schedule("first", claim)
	n.prepare(pod)
	id := n.ids(claim)[0]
	const delay = 2 * time.Second
	n.playAndSettle(releaseDelay(id, delay))
	began, releasing := time.Now(), n.agent.Printed("the scenario delays a call", id)
	n.finish(pod)
	next := n.claim("next", class, 1)
	names := n.prepare(n.schedule("next", next))
	if took := time.Since(began); took < delay {
		t.Errorf("the next claim got the device after %v; its release takes %v", took, delay)
	}
	select {
	case <-releasing:
	default:
		t.Error("the backend has not released the device")
	}
	n.wantNames(names, "mock", next)
}

// TestClaimOfTwoPods verifies that two pods that share a claim get the same devices, and that the
// devices stay held until both have ended.
func TestClaimOfTwoPods(t *testing.T) {
	n := startClaims(t, mock{Count: 2, Prepare: true})
	claim := n.claim("shared", class, 1)
	first, second := n.schedule("first", claim), n.schedule("second", claim)
	n.wantNames(n.prepare(first), "mock", claim)
	n.wantNames(n.prepare(second), "mock", claim)
	ids := n.ids(claim)
	n.finish(first)
	n.wantHeld(true, ids...)
	n.wantNames(n.names(second), "mock", claim)
	n.finish(second)
	n.wantHeld(false, ids...)
}

// TestClaimsOfTwoDrivers verifies that a pod may have several claims, of devices of several backends.
func TestClaimsOfTwoDrivers(t *testing.T) {
	tree := amdtree.New(t, amdtree.NewMI300X("SPX", "NPS1"))
	if err := os.WriteFile(filepath.Join(tree.Devfs(), "null"), nil, 0o600); err != nil { // the mock's node
		t.Fatal(err)
	}
	n := newClaimNode(t)
	n.agent.Args = append(n.agent.Args, "--devfs", tree.Devfs(), "--sysfs", tree.Sysfs())
	n.createClass("amd", "amd.accelmux.io")
	n.startKubelet()
	config := mock{Count: 2}.config(n.node)
	config.Others = []agent.Backend{{Name: "amd"}}
	config.Resources = []agent.Resource{
		{Name: gpu, Backend: "mock", API: "dra"}, {Name: "amd.com/gpu", Backend: "amd", API: "dra"},
	}
	n.configure(config)
	n.startAgent()
	n.wantPublished(driver, 2)
	n.wantPublished("amd.accelmux.io", 8)

	one, two, other := n.claim("one", class, 1), n.claim("two", class, 1), n.claim("other", "amd", 2)
	pod := n.schedule("pod", one, two, other)
	names := n.prepare(pod)
	if len(names) != 4 {
		t.Fatalf("the container has the CDI names %v; want one for each of 4 devices", names)
	}
	// Kubelet has no order among a pod's claims.
	for _, want := range []struct {
		claim   *resourceapi.ResourceClaim
		backend string
	}{{one, "mock"}, {two, "mock"}, {other, "amd"}} {
		var own []string
		for _, name := range names {
			if strings.HasSuffix(name, string(want.claim.UID)) {
				own = append(own, name)
			}
		}
		n.wantNames(own, want.backend, want.claim)
	}
	n.finish(pod)
	for id, d := range n.devices() {
		if len(d.Holders) != 0 {
			t.Errorf("%s has the holders %+v after the end of the pod", id, d.Holders)
		}
	}
}

// TestClaimHealth verifies that a fault of a claim's device is in the pod's status, and keeps other
// pods from the device: by a taint, or, where the API server has none, by its absence from the
// slices; and that both end when the device has recovered.
func TestClaimHealth(t *testing.T) {
	n := startClaims(t, mock{Count: 2})
	claim := n.claim("claim", class, 1)
	pod := n.schedule("pod", claim)
	name := n.prepare(pod)[0]
	id := n.ids(claim)[0]
	devices, err := n.cluster.Allocated(n.soon(), claim)
	if err != nil {
		t.Fatal(err)
	}
	n.wantClaimHealth(pod, name, v1.ResourceHealthStatusHealthy)
	n.play(fault(id, "too-hot", "self"))
	n.eventually("the device is withheld from other pods", func() bool {
		d, ok := n.published(driver)[devices[0]]
		if realkubelet.Taints.Can(n.kubelet.Release()) {
			return ok && len(d.Taints) == 1
		}
		return !ok
	})
	n.wantClaimHealth(pod, name, v1.ResourceHealthStatusUnhealthy)
	n.play()
	n.eventually("the device is published for all pods", func() bool {
		d, ok := n.published(driver)[devices[0]]
		return ok && len(d.Taints) == 0
	})
	n.wantClaimHealth(pod, name, v1.ResourceHealthStatusHealthy)
	n.finish(pod)
}

// wantClaimHealth waits for that health of a device in the status of a pod, in a test of its own: not
// every kubelet writes it.
func (n *claimNode) wantClaimHealth(pod *v1.Pod, name string, want v1.ResourceHealthStatus) {
	n.Helper()
	n.Run("pod status "+string(want), func(t *testing.T) {
		realkubelet.HealthStatus.Need(t, n.kubelet.Release())
		n.eventually(name+" is "+string(want)+" in the pod's status", func() bool { return n.kubelet.PodHealth(pod)[name] == want })
	})
}

// TestForceDeletedPodKeepsItsDevice verifies that a device is not given out again while a pod that is
// gone from the API server, with its reservation, still has it: the scheduler believes it free. A
// restart of the agent in between changes nothing.
func TestForceDeletedPodKeepsItsDevice(t *testing.T) {
	n := startClaims(t, mock{Count: 1})
	claim := n.claim("claim", class, 1)
	deleted := n.schedule("deleted", claim)
	n.prepare(deleted)
	id := n.ids(claim)[0]
	if err := n.cluster.DeletePod(n.soon(), deleted); err != nil {
		t.Fatal(err)
	}
	next := n.claim("next", class, 1)
	pod := n.schedule("next", next)
	n.wantRefused(pod, "default/next", id, "default/claim")
	if err := n.agent.Kill(); err != nil {
		t.Fatal(err)
	}
	n.startAgent()
	n.wantServed()
	n.wantRefused(pod, "default/next", id, "default/claim")
	n.retried("unprepare the claims of the deleted pod", func() error { return n.kubelet.UnprepareClaims(n.soon(), deleted) })
	n.kubelet.RemovePod(deleted)
	n.wantNames(n.prepare(pod), "mock", next)
}

// wantRefused fails unless the agent refuses to prepare the pod's claims, in an error with these words.
func (n *claimNode) wantRefused(pod *v1.Pod, words ...string) {
	n.Helper()
	err := n.tryPrepare(pod)
	if err == nil {
		n.Fatalf("the claims of %s are prepared", pod.Name)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			n.Errorf("the error %q does not name %s", err, word)
		}
	}
}
