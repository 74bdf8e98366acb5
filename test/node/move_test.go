package node

import (
	"testing"
)

// The values of the node's label: example.com/gpu by the one API and by the other.
const (
	byPlugin = "plugin"
	byClaims = "claims"
)

// movingGPUs has a profile for each API, with the same four devices.
const movingGPUs = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: plugin
    nodeSelector: {matchLabels: {example.com/accelerator: plugin}}
    backends: [{name: mock, settings: {count: 4}}]
    resources: [{name: example.com/gpu}]
  - name: claims
    nodeSelector: {matchLabels: {example.com/accelerator: claims}}
    backends: [{name: mock, settings: {count: 4}}]
    resources: [{name: example.com/gpu, api: dra}]
`

var allFour = []string{"mock-0", "mock-1", "mock-2", "mock-3"}

// Verifies a move back: the free devices are listed at once, and those of claims are unhealthy until
// the claims have ended. The scheduler counts a pod that has its device by a claim, and asked for it
// as an extended resource, against what the device plugin API has: such a pod counts twice while it
// runs, as its device is not allocatable either.
func TestMoveBackToTheDevicePlugin(t *testing.T) {
	n := begin(t)
	n.label(byClaims)
	n.install(movingGPUs, values{"deviceClasses": values{"extendedResourceNames": true}})
	n.wantInSlices(allFour...)
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
