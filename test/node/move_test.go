package node

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The values of the node's label: example.com/gpu by the one API and by the other.
const (
	byPlugin = "plugin"
	byClaims = "claims"
)

// movingGPUs has a profile for each API, with the same four devices; %s is their hooks.
const movingGPUs = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: plugin
    nodeSelector: {matchLabels: {example.com/accelerator: plugin}}
    backends: [{name: mock, settings: {count: 4, hooks: [%[1]s]}}]
    resources: [{name: example.com/gpu}]
  - name: claims
    nodeSelector: {matchLabels: {example.com/accelerator: claims}}
    backends: [{name: mock, settings: {count: 4, hooks: [%[1]s]}}]
    resources: [{name: example.com/gpu, api: dra}]
`

const prepared = "prepare, release"

var allFour = []string{"mock-0", "mock-1", "mock-2", "mock-3"}

// installMoving installs the chart with movingGPUs, and with a DeviceClass by which pods may ask for
// example.com/gpu as an extended resource.
func (n *node) installMoving(label, hooks string) {
	n.Helper()
	n.label(label)
	n.install(fmt.Sprintf(movingGPUs, hooks), values{"deviceClasses": values{"extendedResourceNames": true}})
	if label == byPlugin {
		n.wantCounts(gpu, 4, 4)
	} else {
		n.wantInSlices(allFour...)
	}
}

// Verifies a move to dynamic resource allocation while a pod has a device by the device plugin API:
// the free devices move at once, that of the pod when the pod has ended; the pod is left alone.
// Nothing of that changes when the agent and kubelet are restarted.
func TestMoveToDRAWithRunningPods(t *testing.T) {
	n := begin(t)
	n.installMoving(byPlugin, "")
	old := n.start("old", gpu, 1)
	held := n.held("old", gpu)

	n.label(byClaims)
	n.wantCounts(gpu, 0, 0)
	n.wantInSlices(without(allFour, held)...)
	n.startClaiming("three", 3)
	n.wantOneHolderEach("old", "three")
	n.wantProblem("held-elsewhere")
	n.kill("accelmux")
	n.wantServing()
	n.restartKubelet("kill")
	n.wantInSlices(without(allFour, held)...)
	n.wantCounts(gpu, 0, 0)
	n.wantUntouched(old)

	// All devices are taken. The next pod gets one of those that have moved.
	n.create(newPod("extended", gpu, 1))
	n.wantUnschedulable("extended")
	n.delete("three")
	n.wantByClaim("extended")
	n.wantOneHolderEach("old", "extended")
	n.wantUntouched(old)
	n.restartContainer("old")
	n.restartContainer("extended")
	n.wantOneHolderEach("old", "extended")

	n.delete("old")
	n.wantInSlices(allFour...)
	// Kubelet still knows the name as one of the device plugin API.
	n.kill("accelmux")
	n.wantServing()
	n.create(newPod("late", gpu, 3))
	n.wantByClaim("late")
	n.wantOneHolderEach("extended", "late")
	n.restartContainer("late")
}

// Verifies the same for devices that are prepared before each start of a container. Until the last
// container has ended that has one by the device plugin API, it can be started again, and is
// prepared for that; kubelet starts no pod that asks for an extended resource, which is a problem in
// the status, but pods with claims.
func TestMoveToDRAWithPreparedDevices(t *testing.T) {
	n := begin(t)
	n.installMoving(byPlugin, prepared)
	old := n.start("old", gpu, 1)
	held := n.held("old", gpu)

	n.label(byClaims)
	n.wantCounts(gpu, 0, 0)
	n.wantInSlices(without(allFour, held)...)
	n.startClaiming("claimed", 1)
	n.create(newPod("extended", gpu, 1))
	n.wantPodEvent("extended", "Failed", "no devices found allocated in local cache")
	n.wantProblem("has moved to dynamic resource allocation", held[0], gpu)
	n.wantUntouched(old)

	n.kill("accelmux")
	n.wantServing()
	n.wantProblem("has moved to dynamic resource allocation", held[0], gpu)
	before := n.prepares(held[0])
	n.restartContainer("old")
	n.eventually("the device is prepared again", func() bool { return n.prepares(held[0]) > before })
	n.wantOneHolderEach("old", "claimed")

	n.delete("old")
	n.wantByClaim("extended")
	n.wantInSlices(allFour...)
	n.wantNoProblem()
	n.wantOneHolderEach("claimed", "extended")
	n.restartContainer("extended")
}

// Verifies a move back: the free devices are listed at once, and those of claims are unhealthy until
// the claims have ended. The scheduler counts a pod that has its device by a claim, and asked for it
// as an extended resource, against what the device plugin API has: such a pod counts twice while it
// runs, as its device is not allocatable either.
func TestMoveBackToTheDevicePlugin(t *testing.T) {
	n := begin(t)
	n.installMoving(byClaims, "")
	claimed := n.startClaiming("claimed", 1)
	n.create(newPod("extended", gpu, 1))
	extended := n.wantByClaim("extended")

	n.label(byPlugin)
	n.wantCounts(gpu, 4, 2)
	n.wantInSlices()
	// Two devices are free. The scheduler finds one: 2 that are allocatable less that of extended.
	n.start("new", gpu, 1)
	n.wantOneHolderEach("claimed", "extended", "new")
	n.create(newPod("more", gpu, 1))
	n.wantUnschedulable("more")

	n.kill("accelmux")
	n.wantServing()
	n.restartKubelet("kill")
	n.wantCounts(gpu, 4, 2)
	n.wantUntouched(claimed)
	n.wantUntouched(extended)
	n.restartContainer("claimed")
	n.restartContainer("extended")
	n.wantOneHolderEach("claimed", "extended", "new")

	n.delete("claimed")
	n.wantCounts(gpu, 4, 3)
	n.wantReady("more")
	n.wantOneHolderEach("extended", "new", "more")
	n.delete("extended")
	n.wantCounts(gpu, 4, 4)
	n.start("last", gpu, 2)
	n.wantOneHolderEach("new", "more", "last")
	n.wantNoRecord()
}

// Verifies a move back of devices that are prepared before each start of a container: while a pod
// that asked for an extended resource has one by a claim, its containers can be started again, as the
// resource is not registered, which is a problem in the status.
func TestMoveBackOfPreparedDevices(t *testing.T) {
	n := begin(t)
	n.installMoving(byClaims, prepared)
	n.startClaiming("claimed", 1)
	n.create(newPod("extended", gpu, 1))
	claim := n.wantByClaim("extended").Status.ExtendedResourceClaimStatus.ResourceClaimName

	n.label(byPlugin)
	n.wantProblem("it is registered when these claims have ended", pods+"/"+claim)
	n.wantInSlices()
	n.create(newPod("new", gpu, 1))
	n.wantUnschedulable("new")
	n.restartContainer("extended")
	n.kill("accelmux")
	n.wantServing()
	n.restartKubelet("stop")
	n.restartContainer("extended")
	n.restartContainer("claimed")
	n.wantProblem("it is registered when these claims have ended", pods+"/"+claim)
	n.wantOneHolderEach("claimed", "extended")

	n.delete("extended")
	n.wantCounts(gpu, 4, 3)
	n.wantReady("new")
	n.wantOneHolderEach("claimed", "new")
	n.delete("claimed")
	n.wantCounts(gpu, 4, 4)
	n.wantNoProblem()
}

// Verifies moves in both directions while the agent is not there, and kubelet is restarted before it
// is back.
func TestMoveWhileTheAgentIsDown(t *testing.T) {
	n := begin(t)
	n.installMoving(byPlugin, prepared)
	old := n.start("old", gpu, 2)
	held := n.held("old", gpu)

	n.withoutAgent(func() {
		n.label(byClaims)
		n.restartKubelet("kill")
	})
	n.wantCounts(gpu, 0, 0)
	n.wantInSlices(without(allFour, held)...)
	n.wantUntouched(old)
	n.startClaiming("claimed", 2)
	n.wantOneHolderEach("old", "claimed")
	n.withoutAgent(func() {
		n.delete("old")
		n.restartKubelet("stop")
	})
	// No container has a device by the device plugin API any more, but kubelet knows the name.
	n.wantInSlices(allFour...)
	n.create(notAtOnce(newPod("extended", gpu, 1)))
	extended := n.wantByClaim("extended")
	n.wantOneHolderEach("claimed", "extended")

	n.withoutAgent(func() {
		n.label(byPlugin)
		n.restartKubelet("kill")
	})
	n.wantProblem("it is registered when these claims have ended")
	n.wantUntouched(extended)
	n.restartContainer("extended")
	n.withoutAgent(func() {
		n.remove("extended")
		n.restartKubelet("stop")
	})
	n.wantCounts(gpu, 4, 2)
	n.wantInSlices()
	n.start("new", gpu, 2)
	n.wantOneHolderEach("claimed", "new")
}

// Verifies a move by an uninstallation and an installation without a resource of dynamic resource
// allocation: a pod that is deleted in between stays until the next agent unprepares its claim, and
// the devices of claims are listed when the claims have ended.
func TestMoveBackByAnotherInstallation(t *testing.T) {
	n := begin(t)
	n.installMoving(byClaims, "")
	n.claim(newClaim("claimed", 2, ""))
	n.create(notAtOnce(claimingPod("claimed", "claimed")))
	n.wantReady("claimed")
	n.create(newPod("extended", gpu, 1))
	n.wantByClaim("extended")

	n.uninstall()
	n.restartContainer("extended")
	container := n.restartContainer("claimed").Status.ContainerStatuses[0].ContainerID
	n.wantOneHolderEach("claimed", "extended")
	n.remove("claimed")
	n.wantEnded(container)
	n.untilPod("claimed", "there and to be deleted", func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })

	n.install(fmt.Sprintf(movingGPUs, ""), values{"config": eightGPUs, "dra": values{"enabled": true}})
	n.wantGone("claimed")
	n.wantCounts(gpu, 8, 7)
	n.delete("extended")
	n.wantCounts(gpu, 8, 8)
	n.wantNoRecord()
	n.start("new", gpu, 8)
}
