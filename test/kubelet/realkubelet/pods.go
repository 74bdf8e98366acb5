package realkubelet

import (
	"context"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// running is a pod of the node and its containers that were started.
type running struct {
	pod        *v1.Pod
	containers map[string]string // container name -> container ID
}

// sources are kubelet's pod sources: not ready until the pods that a restart
// found were admitted again.
type sources struct{ ready atomic.Bool }

func (s *sources) AddSource(string) {}
func (s *sources) AllReady() bool   { return s.ready.Load() }

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
	s, err := k.session()
	if err != nil {
		return err
	}
	k.mu.Lock()
	if _, ok := k.pods[pod.UID]; ok {
		k.mu.Unlock()
		return fmt.Errorf("pod %s is on the node already", pod.Name)
	}
	// Kubelet's pod manager knows the pod before it is admitted; without that the
	// device manager would free its first container's devices for its second.
	k.pods[pod.UID] = &running{pod: pod, containers: map[string]string{}}
	k.mu.Unlock()
	if err := k.admit(ctx, s, pod); err != nil {
		k.RemovePod(pod)
		return err
	}
	return nil
}

func (k *Kubelet) admit(ctx context.Context, s *session, pod *v1.Pod) error {
	k.admission.Lock()
	defer k.admission.Unlock()
	// The topology manager is the handler that kubelet's container manager gives
	// for allocating resources (GetAllocateResourcesPodAdmitHandler).
	result := s.topology.Admit(klog.NewContext(ctx, k.log), &lifecycle.PodAdmitAttributes{
		Pod: pod, Operation: lifecycle.AddOperation,
	})
	if !result.Admit {
		return &AdmissionError{Reason: result.Reason, Message: result.Message}
	}
	return nil
}

// readmit puts the pods that a restart found through admission again, as
// kubelet's first sync does; one that is refused would be killed.
func (k *Kubelet) readmit(ctx context.Context, s *session) error {
	for _, pod := range k.activePods() {
		if err := k.admit(ctx, s, pod); err != nil {
			return fmt.Errorf("pod %s, which was running before, is refused: %w", pod.Name, err)
		}
	}
	return nil
}

// StartContainer asks the device manager for the options of a container that is
// about to start (which calls PreStartContainer where the plugin wants it) and
// marks the container as running. Ask again for a restart of the container.
func (k *Kubelet) StartContainer(ctx context.Context, pod *v1.Pod, name string) (*devicemanager.DeviceRunContainerOptions, error) {
	s, err := k.session()
	if err != nil {
		return nil, err
	}
	container, err := containerOf(pod, name)
	if err != nil {
		return nil, err
	}
	opts, err := s.devices.GetDeviceRunContainerOptions(klog.NewContext(ctx, k.log), pod, container)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.pods[pod.UID]
	if !ok {
		return nil, fmt.Errorf("pod %s is not on the node", pod.Name)
	}
	id := "cri://" + string(pod.UID) + "/" + name
	r.containers[name] = id
	s.topology.AddContainer(k.log, pod, container, id)
	return opts, nil
}

func containerOf(pod *v1.Pod, name string) (*v1.Container, error) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], nil
			}
		}
	}
	return nil, fmt.Errorf("pod %s has no container %q", pod.Name, name)
}

// RemovePod takes the pod off the node. As in kubelet its devices are freed when
// the device manager next looks: at an admission or a pod-resources List.
func (k *Kubelet) RemovePod(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.pods[pod.UID]
	if !ok {
		return
	}
	delete(k.pods, pod.UID)
	if k.run == nil {
		return
	}
	for _, id := range r.containers {
		// Its only error is for an ID that it does not know, and it hides that one.
		_ = k.run.topology.RemoveContainer(k.log, id)
	}
}

// runningContainers is what kubelet learns from the container runtime when it
// starts: by these it tells its own restart from a reboot of the node.
func (k *Kubelet) runningContainers() (containermap.ContainerMap, sets.Set[string]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	containers, ids := containermap.NewContainerMap(), sets.New[string]()
	for uid, r := range k.pods {
		for name, id := range r.containers {
			containers.Add(string(uid), name, id)
			ids.Insert(id)
		}
	}
	return containers, ids
}
