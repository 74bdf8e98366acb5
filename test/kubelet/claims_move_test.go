package kubelet

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// startMoving is a node whose resource is served by the device plugin API, and what moves it.
func startMoving(t *testing.T, m mock) (n *claimNode, move func(api string)) {
	t.Helper()
	n = newClaimNode(t)
	n.startKubelet()
	move = func(api string) {
		n.Helper()
		config := m.config(n.node)
		config.Resources[0].API = api
		n.configure(config)
	}
	move("devicePlugin")
	n.startAgent()
	n.wantCounts(gpu, int64(m.Count), int64(m.Count))
	return n, move
}

// TestResourceMovesBetweenTheAPIs verifies that the free devices of a resource move to the other API at
// once, and the others when their pods have ended, there and back, with a restart of kubelet in
// between; the pods that have them go on.
func TestResourceMovesBetweenTheAPIs(t *testing.T) {
	t.Parallel() // it waits most of the time
	n, move := startMoving(t, mock{Count: 4, Prepare: true})
	old := n.admit("old", gpu, 1)
	names := n.cdiNames(n.startContainer(old))
	held := n.held(old, gpu)

	move("dra")
	n.wantCounts(gpu, 0, 0)
	n.wantPublished(driver, 3)
	claim := n.claim("claim", class, 3)
	pod := n.schedule("pod", claim)
	n.wantNames(n.prepare(pod), "mock", claim)
	if slices.Contains(n.ids(claim), held[0]) {
		t.Errorf("%s, which a pod has by the device plugin API, is in a claim: %v", held[0], n.ids(claim))
	}
	if got := n.cdiNames(n.startContainer(old)); !slices.Equal(got, names) {
		t.Errorf("the pod with the device plugin API had %v, and now has %v", names, got)
	}
	n.restart(false)
	n.wantPublished(driver, 3)
	n.startContainer(old)
	n.kubelet.RemovePod(old)
	n.wantPublished(driver, 4)

	move("devicePlugin")
	n.wantCounts(gpu, 4, 1)
	if got := n.held(n.admit("back", gpu, 1), gpu); !slices.Equal(got, held) {
		t.Errorf("the first pod after the way back has %v; want %v", got, held)
	}
	n.wantNames(n.names(pod), "mock", claim)
	n.finish(pod)
	n.wantCounts(gpu, 4, 4)
	n.eventually("nothing is published", func() bool { return len(n.published(driver)) == 0 })
}

// extendedPod is a pod that asks for one device by the resource's name, and has it by a claim.
func (n *claimNode) extendedPod(name string) (*v1.Pod, *resourceapi.ResourceClaim) {
	n.Helper()
	pod, claim, err := n.cluster.CreateExtendedPod(n.soon(), name, gpu, class)
	if err != nil {
		n.Fatal(err)
	}
	n.bind(pod)
	n.retried("prepare the claims of "+name, func() error { return n.tryPrepare(pod) })
	return pod, claim
}

// TestExtendedResourceMoves verifies that pods that ask for a resource by its name get devices by a claim
// after a move, although kubelet starts none of them while a plugin with PreStartContainer is registered:
// that one goes with the last container that needs it, and comes back with the last claim.
func TestExtendedResourceMoves(t *testing.T) {
	t.Parallel() // it waits most of the time
	need(t, realkubelet.ExtendedResources)
	n, move := startMoving(t, mock{Count: 2, Prepare: true})
	old := n.admit("old", gpu, 1)
	n.startContainer(old)
	move("dra")
	n.wantPublished(driver, 1)
	pod, claim := n.extendedPod("pod")
	if _, err := n.kubelet.StartContainer(n.soon(), pod, "c"); err == nil {
		t.Error("the container was started; kubelet used not to")
	}
	n.wantProblem("kubelet starts no pod that asks for " + gpu)
	n.kubelet.RemovePod(old)
	n.retried("start the container", func() error { _, err := n.kubelet.StartContainer(n.soon(), pod, "c"); return err })
	n.wantNames(n.names(pod), "mock", claim)
	n.wantPublished(driver, 2)

	move("devicePlugin")
	n.wantProblem("it is registered when these claims have ended: default/" + claim.Name)
	n.wantNames(n.names(pod), "mock", claim)
	n.finish(pod)
	n.wantCounts(gpu, 2, 2)
	n.startContainer(n.admit("back", gpu, 2))
}

// wantProblem waits until the status has a problem with these words.
func (n *claimNode) wantProblem(words string) {
	n.Helper()
	n.eventually("a problem: "+words, func() bool {
		report, err := n.agent.Status(n.soon())
		return err == nil && slices.ContainsFunc(report.Problems, func(p status.Problem) bool { return strings.Contains(p.Message, words) })
	})
}
