package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/accelmux/accelmux/test/kubelet/manager/wire"
)

// service is what can be asked of the program; see package wire.
type service struct{ k *kubelet }

// running is the kubelet with what it has, or an error before it was started.
func (s service) running() (*kubelet, error) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	if !s.k.up {
		return nil, errors.New("kubelet is not running yet")
	}
	return s.k, nil
}

// pod is a pod of the running kubelet.
func (s service) pod(uid string) (*kubelet, *v1.Pod, error) {
	k, err := s.running()
	if err != nil {
		return nil, nil, err
	}
	pod, err := k.pod(uid)
	return k, pod, err
}

// Start starts the kubelet. If that fails, the process is of no more use.
func (s service) Start(opts wire.Options, about *wire.About) error {
	*about = wire.About{Release: release(), Refused: map[string]wire.Verdict{}}
	return s.k.start(opts, about)
}

// Admit admits a pod as kubelet does: the topology manager gathers the hints, its
// policy decides, and the devices of every container are allocated.
func (s service) Admit(pod *v1.Pod, verdict *wire.Verdict) error {
	k, err := s.running()
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
	k.pods[pod.UID] = &wire.Running{Pod: pod, Containers: map[string]string{}}
	k.mu.Unlock()
	*verdict = k.admitNow(klog.NewContext(context.Background(), k.log), pod)
	if !verdict.Admitted {
		k.remove(pod.UID)
	}
	return nil
}

// admitNow asks the topology manager, which is the handler that kubelet's container
// manager gives for allocating resources (GetAllocateResourcesPodAdmitHandler).
func (k *kubelet) admitNow(ctx context.Context, pod *v1.Pod) wire.Verdict {
	k.admission.Lock()
	defer k.admission.Unlock()
	result := k.admit(ctx, pod)
	return wire.Verdict{Admitted: result.Admit, Reason: result.Reason, Message: result.Message}
}

// PrepareClaims prepares the claims of a pod, which kubelet does before it makes the
// pod's sandbox, until it succeeds.
func (s service) PrepareClaims(uid string, _ *wire.Nothing) error {
	return s.claims(uid, func(ctx context.Context, k *kubelet, pod *v1.Pod) error { return k.claims.PrepareResources(ctx, pod) })
}

// UnprepareClaims unprepares the claims that no other pod of the node uses, which kubelet
// does when the pod's containers have ended, until it succeeds.
func (s service) UnprepareClaims(uid string, _ *wire.Nothing) error {
	return s.claims(uid, func(ctx context.Context, k *kubelet, pod *v1.Pod) error { return k.claims.UnprepareResources(ctx, pod) })
}

func (s service) claims(uid string, do func(context.Context, *kubelet, *v1.Pod) error) error {
	k, pod, err := s.pod(uid)
	if err != nil {
		return err
	}
	return do(klog.NewContext(context.Background(), k.log), k, pod)
}

// StartContainer asks the managers for the options of a container that is about to
// start (which calls PreStartContainer where the plugin wants it) and marks the
// container as running. The container's claims must be prepared.
func (s service) StartContainer(c wire.Container, opts *wire.ContainerOptions) error {
	k, pod, err := s.pod(c.Pod)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, c.Name)
	if err != nil {
		return err
	}
	names, err := k.claims.names(pod, container)
	if err != nil {
		return err
	}
	own, err := k.runOptions(klog.NewContext(context.Background(), k.log), pod, container)
	if err != nil {
		return err
	}
	if err := convert(own, opts); err != nil {
		return err
	}
	for i, name := range names { // first, as kubelet has them
		opts.CDIDevices = slices.Insert(opts.CDIDevices, i, wire.CDIDevice{Name: name})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.pods[pod.UID]
	if !ok {
		return fmt.Errorf("pod %s is not on the node", pod.Name)
	}
	r.Containers[c.Name] = c.ID
	k.addContainer(pod, container, c.ID)
	return nil
}

// convert makes kubelet's options ours.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// RemovePod takes the pod off the node. As in kubelet its devices are freed when
// the device manager next looks: at an admission or a pod-resources List.
func (s service) RemovePod(uid string, _ *wire.Nothing) error {
	k, err := s.running()
	if err != nil {
		return err
	}
	k.remove(types.UID(uid))
	return nil
}

func (k *kubelet) remove(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.pods[uid]
	if !ok {
		return
	}
	delete(k.pods, uid)
	for _, id := range r.Containers {
		k.removeContainer(id)
	}
}

// Counts are those of one resource.
func (s service) Counts(resource string, counts *wire.Counts) error {
	k, err := s.running()
	if err != nil {
		return err
	}
	capacity, allocatable := k.capacity()
	c, known := capacity[v1.ResourceName(resource)]
	a := allocatable[v1.ResourceName(resource)]
	*counts = wire.Counts{Known: known, Capacity: c.Value(), Allocatable: a.Value()}
	return nil
}

// Healthy lists the IDs of the resource's healthy devices, sorted, whether
// allocated or not.
func (s service) Healthy(resource string, ids *[]string) error {
	k, err := s.running()
	if err != nil {
		return err
	}
	*ids = []string{} // an answer of null would be none for the client
	for id := range k.allocatable()[resource] {
		*ids = append(*ids, id)
	}
	slices.Sort(*ids)
	return nil
}

// Resources are all that kubelet knows, at one moment.
func (s service) Resources(_ wire.Nothing, all *map[string]wire.Resource) error {
	k, err := s.running()
	if err != nil {
		return err
	}
	k.capacity() // forgets what has no plugin for too long, as kubelet's node status does
	*all, err = resourcesOf(k.devices)
	return err
}

// Devices are those that a container was given, sorted, by resource.
func (s service) Devices(c wire.Container, devices *map[string][]wire.Device) error {
	k, err := s.running()
	if err != nil {
		return err
	}
	*devices = map[string][]wire.Device{}
	for resource, instances := range k.devices.GetDevices(c.Pod, c.Name) {
		var held []wire.Device
		for id, d := range instances {
			var nodes []int64
			for _, n := range d.GetTopology().GetNodes() {
				nodes = append(nodes, n.GetID())
			}
			slices.Sort(nodes)
			held = append(held, wire.Device{ID: id, NUMANodes: nodes})
		}
		slices.SortFunc(held, func(a, b wire.Device) int { return strings.Compare(a.ID, b.ID) })
		(*devices)[resource] = held
	}
	return nil
}

// PodHealth is what kubelet would write into pod.status for the containers'
// devices (allocatedResourcesStatus), by device ID; nothing if this release does not
// by default.
func (s service) PodHealth(uid string, health *map[string]string) error {
	k, pod, err := s.pod(uid)
	if err != nil {
		return err
	}
	if *health = k.podHealth(pod); *health == nil {
		*health = map[string]string{}
	}
	return nil
}

func (k *kubelet) pod(uid string) (*v1.Pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.pods[types.UID(uid)]
	if !ok {
		return nil, fmt.Errorf("no pod %s is on the node", uid)
	}
	return r.Pod, nil
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
