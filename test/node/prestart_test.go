package node

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Devices that ask for Prepare before a container starts.
const preparedGPUs = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, hooks: [prepare], scenarioFile: /run/play/scenario.yaml}
    resources:
      - name: example.com/gpu
`

// A device that cannot be made ready keeps a pod from starting, with the reason in
// the pod's status and Events; when it can be, the pod starts by itself.
func TestStartFailsWithReasonAndIsRetried(t *testing.T) {
	const reason = "the card does not answer to a reset"
	n := begin(t)
	n.play(`{devices: {"mock-*": {prepare: {error: ` + reason + `}}}}`)
	n.install(preparedGPUs)
	n.wantCounts(gpu, 4, 4)
	n.create(newPod("one", gpu, 1))
	n.wantPodEvent("one", "Failed", reason)
	n.untilPod("one", "waiting with the reason", func(pod *v1.Pod) bool {
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && strings.Contains(w.Message, reason) {
				t.Logf("waiting: %s: %s", w.Reason, w.Message)
				return true
			}
		}
		return false
	})
	n.play(`{}`)
	n.wantReady("one")
}
