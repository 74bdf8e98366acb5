package node

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// The start of a pod waits while its device is made ready.
func TestStartWaitsForPrepare(t *testing.T) {
	const slow = 4 * time.Second
	n := begin(t)
	n.play(`{devices: {"mock-*": {prepare: {delay: ` + slow.String() + `}}}}`)
	n.install(preparedGPUs)
	n.wantCounts(gpu, 4, 4)
	pod := n.start("one", gpu, 1)
	waited := pod.Status.ContainerStatuses[0].State.Running.StartedAt.Sub(pod.Status.StartTime.Time)
	t.Logf("the container started %v after kubelet had taken the pod", waited)
	if waited < slow-time.Second { // both times are whole seconds
		t.Errorf("the container started %v after kubelet had taken the pod; making its device ready takes %v", waited, slow)
	}
}

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

// What a pod asks of its device by an annotation reaches its containers, an init
// container that has the same device before too, and another pod by a variable; a pod
// that asks for what cannot be known does not start, and says why.
func TestPodAsksOfItsDevice(t *testing.T) {
	const message = "hello from the annotation"
	n := begin(t)
	n.play(`{}`)
	n.install(preparedGPUs + `        parameters: {message: {value: nothing, annotation: example.com/message, env: MESSAGE}}
`)
	n.wantCounts(gpu, 4, 4)
	pod := newPod("annotated", gpu, 1)
	pod.Annotations = map[string]string{"example.com/message": message}
	pod.Spec.InitContainers = []v1.Container{{
		Name: "init", Image: pod.Spec.Containers[0].Image, Command: []string{"sh", "-c", `test "$ACCELMUX_MOCK_MESSAGE" = "` + message + `"`},
		Resources: v1.ResourceRequirements{Limits: v1.ResourceList{gpu: resource.MustParse("1")}},
	}}
	n.create(pod)
	pod = newPod("plain", gpu, 1)
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "MESSAGE", Value: "from the variable"}}
	n.create(pod)
	pod = newPod("wrong", gpu, 1)
	pod.Spec.Containers[0].Env = []v1.EnvVar{{
		Name: "MESSAGE", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	}}
	n.create(pod)
	for name, want := range map[string]string{"annotated": message, "plain": "from the variable"} {
		n.wantReady(name)
		if got := strings.TrimSpace(n.exec(name, "sh", "-c", "echo $ACCELMUX_MOCK_MESSAGE")); got != want {
			t.Errorf("pod %s is told %q, want %q", name, got, want)
		}
	}
	n.wantPodEvent("wrong", "Failed", "parameter message, from the variable MESSAGE of container main: it has valueFrom")
}
