package realkubelet

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

// AdmissionError is why a pod was not admitted, as it would stand in the pod's status.
type AdmissionError struct {
	Reason  string
	Message string
}

func (r *AdmissionError) Error() string { return r.Reason + ": " + r.Message }

// NewPod makes a pod with one container, c, that asks for the given amounts.
func NewPod(name string, requests map[string]int64) *v1.Pod {
	list := v1.ResourceList{}
	for name, n := range requests {
		list[v1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:      "c",
			Resources: v1.ResourceRequirements{Limits: list, Requests: list},
		}}},
	}
}

// Admit admits a pod as kubelet does: the topology manager gathers the hints,
// its policy decides, and the devices of every container are allocated. A
// refusal is a *AdmissionError; the pod is then not on the node.
func (k *Kubelet) Admit(ctx context.Context, pod *v1.Pod) error {
	var verdict wire.Verdict
	if err := k.call(ctx, "Admit", pod, &verdict); err != nil {
		return err
	}
	if !verdict.Admitted {
		return &AdmissionError{Reason: verdict.Reason, Message: verdict.Message}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod.UID] = &wire.Running{Pod: pod, Containers: map[string]string{}}
	return nil
}

// ContainerOptions are the device manager's options for a container.
type ContainerOptions = wire.ContainerOptions

// Variable is one of a container's variables or annotations.
type Variable = wire.Variable

// StartContainer asks the device manager for the options of a container that is
// about to start (which calls PreStartContainer where the plugin wants it) and
// marks the container as running. Ask again for a restart of the container.
func (k *Kubelet) StartContainer(ctx context.Context, pod *v1.Pod, name string) (*ContainerOptions, error) {
	id := "cri://" + string(pod.UID) + "/" + name
	opts := &ContainerOptions{}
	if err := k.call(ctx, "StartContainer", wire.Container{Pod: string(pod.UID), Name: name, ID: id}, opts); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.pods[pod.UID]
	if !ok {
		return nil, fmt.Errorf("pod %s is not on the node", pod.Name)
	}
	r.Containers[name] = id
	return opts, nil
}

// RemovePod takes the pod off the node. As in kubelet its devices are freed when
// the device manager next looks: at an admission or a pod-resources List.
func (k *Kubelet) RemovePod(pod *v1.Pod) {
	k.mu.Lock()
	delete(k.pods, pod.UID)
	k.mu.Unlock()
	// Without a kubelet the next one does not hear of the pod.
	_ = k.read("RemovePod", string(pod.UID), &wire.Nothing{})
}
