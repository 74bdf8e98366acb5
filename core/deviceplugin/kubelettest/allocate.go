package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Allocation is what one container holds of one resource.
type Allocation struct {
	Pod, Container, Resource string
	// Devices are device IDs, sorted.
	Devices []string
	// Response is the plugin's answer, as it is replayed at every start.
	Response *pluginapi.ContainerAllocateResponse
}

// Settings are what a container gets from all its resources together.
type Settings struct {
	Envs        map[string]string
	Annotations map[string]string
	Mounts      []*pluginapi.Mount
	Devices     []*pluginapi.DeviceSpec
	CDIDevices  []string
}

type allocation struct {
	devices  []string
	response *pluginapi.ContainerAllocateResponse
	// numa is the topology at the time of the allocation, for pod-resources.
	numa map[string][]int
}

// Allocate allocates count devices of a resource to a container, as kubelet does
// when it admits a pod: it calls GetPreferredAllocation if the plugin offers it, then
// Allocate, and stores the answer. A container that has the resource already keeps its
// devices, without a call. reuse lists devices of the pod's init containers to use
// first. The pod is a name, or namespace/name.
func (k *Kubelet) Allocate(ctx context.Context, pod, container, resource string, count int, reuse ...string) (*Allocation, error) {
	k.mu.Lock()
	if held := k.pods[pod][container][resource]; held != nil {
		defer k.mu.Unlock()
		if len(held.devices) != count {
			return nil, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d",
				pod, container, resource, len(held.devices), count)
		}
		return export(pod, container, resource, held), nil
	}
	r, ok := k.manager.resources[resource]
	if !ok || k.process == nil {
		k.mu.Unlock()
		return nil, fmt.Errorf("cannot allocate unregistered device %s", resource)
	}
	if len(r.healthy) == 0 {
		k.mu.Unlock()
		return nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", resource)
	}
	taken := k.inUse(resource)
	available := map[string]struct{}{}
	for id := range r.healthy {
		if _, used := taken[id]; !used {
			available[id] = struct{}{}
		}
	}
	endpoint, stopped := r.primary, !r.stoppedAt.IsZero()
	k.mu.Unlock()

	chosen, err := choose(ctx, endpoint, stopped, resource, available, reuse, count)
	if err != nil {
		return nil, err
	}
	if endpoint == nil || stopped {
		return nil, fmt.Errorf("endpoint of %s has been stopped", resource)
	}
	response, err := endpoint.api.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: chosen}},
	})
	if err != nil {
		return nil, err
	}
	if len(response.GetContainerResponses()) == 0 {
		return nil, errors.New("no containers return in allocation response")
	}
	return k.keep(pod, container, resource, chosen, response.GetContainerResponses()[0])
}

// choose is devicesToAllocate without NUMA hints.
func choose(ctx context.Context, endpoint *client, stopped bool, resource string,
	available map[string]struct{}, reuse []string, count int,
) ([]string, error) {
	chosen := map[string]struct{}{}
	take := func(ids []string) bool {
		for _, id := range ids {
			if len(chosen) == count {
				break
			}
			chosen[id] = struct{}{}
			delete(available, id)
		}
		return len(chosen) == count
	}
	if take(reuse) {
		return slices.Sorted(maps.Keys(chosen)), nil
	}
	if needed := count - len(chosen); len(available) < needed {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			resource, needed, len(available))
	}
	if endpoint != nil && endpoint.options.GetGetPreferredAllocationAvailable() {
		if stopped {
			return nil, fmt.Errorf("endpoint of %s has been stopped", resource)
		}
		must := slices.Sorted(maps.Keys(chosen))
		response, err := endpoint.api.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
			ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
				AvailableDeviceIDs:   append(slices.Collect(maps.Keys(available)), must...),
				MustIncludeDeviceIDs: must,
				AllocationSize:       int32(count),
			}},
		})
		if err != nil {
			return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
		}
		for _, r := range response.GetContainerResponses()[:min(1, len(response.GetContainerResponses()))] {
			preferred := slices.DeleteFunc(slices.Clone(r.GetDeviceIDs()), func(id string) bool {
				_, ok := available[id]
				return !ok
			})
			if take(preferred) {
				return slices.Sorted(maps.Keys(chosen)), nil
			}
		}
	}
	take(slices.Collect(maps.Keys(available)))
	return slices.Sorted(maps.Keys(chosen)), nil
}

func (k *Kubelet) keep(pod, container, resource string, ids []string, response *pluginapi.ContainerAllocateResponse) (*Allocation, error) {
	kept := &allocation{devices: ids, response: response, numa: map[string][]int{}}
	k.update(Event{
		Type: EventAllocated, Resource: resource, Pod: pod, Container: container, Devices: slices.Clone(ids),
	}, func() {
		k.counts.Allocations++
		if r, ok := k.manager.resources[resource]; ok {
			for _, id := range ids {
				kept.numa[id] = numaNodes(r.devices[id])
			}
		}
		k.put(pod, container, resource, kept)
	})
	return export(pod, container, resource, kept), nil
}

// put stores an allocation; mu is held.
func (k *Kubelet) put(pod, container, resource string, a *allocation) {
	if k.pods[pod] == nil {
		k.pods[pod] = map[string]map[string]*allocation{}
	}
	if k.pods[pod][container] == nil {
		k.pods[pod][container] = map[string]*allocation{}
	}
	k.pods[pod][container][resource] = a
}

// Restore adds an allocation of an earlier stand-in with the same directory, as kubelet reads it from its device
// manager's checkpoint after a reboot.
func (k *Kubelet) Restore(a Allocation) {
	k.update(Event{Type: EventAdmitted, Pod: a.Pod}, func() {
		k.put(a.Pod, a.Container, a.Resource, &allocation{devices: a.Devices, response: a.Response})
	})
}

func export(pod, container, resource string, a *allocation) *Allocation {
	return &Allocation{
		Pod: pod, Container: container, Resource: resource, Devices: slices.Clone(a.devices),
		Response: proto.CloneOf(a.response),
	}
}

// inUse are the devices of a resource that pods hold; mu is held.
func (k *Kubelet) inUse(resource string) map[string]struct{} {
	used := map[string]struct{}{}
	for _, containers := range k.pods {
		for _, resources := range containers {
			if a := resources[resource]; a != nil {
				for _, id := range a.devices {
					used[id] = struct{}{}
				}
			}
		}
	}
	return used
}

// StartContainer starts a container; it may be called again. It calls PreStartContainer
// for every resource whose plugin requires it, and returns the stored answers,
// merged. Kubelet calls no Allocate here. Where two resources disagree the first
// in the order of their names wins (in kubelet it is an arbitrary one).
func (k *Kubelet) StartContainer(ctx context.Context, pod, container string) (*Settings, error) {
	k.mu.Lock()
	held := maps.Clone(k.pods[pod][container])
	k.mu.Unlock()
	if len(held) == 0 {
		return nil, fmt.Errorf("no devices found allocated in local cache for pod %s, container %s", pod, container)
	}
	names := slices.Sorted(maps.Keys(held))
	for _, resource := range names {
		if err := k.preStart(ctx, resource, held[resource].devices); err != nil {
			return nil, err
		}
	}
	settings := &Settings{Envs: map[string]string{}, Annotations: map[string]string{}}
	for _, resource := range names {
		settings.add(held[resource].response)
	}
	k.update(Event{Type: EventContainerStarted, Pod: pod, Container: container}, func() {})
	return settings, nil
}

func (k *Kubelet) preStart(ctx context.Context, resource string, ids []string) error {
	k.mu.Lock()
	r, ok := k.manager.resources[resource]
	if !ok {
		k.mu.Unlock()
		return fmt.Errorf("endpoint not found in cache for a registered resource: %s", resource)
	}
	endpoint, stopped := r.primary, !r.stoppedAt.IsZero()
	k.mu.Unlock()
	if endpoint == nil || !endpoint.options.GetPreStartRequired() {
		return nil
	}
	if stopped {
		return fmt.Errorf("endpoint of %s has been stopped", resource)
	}
	ctx, cancel := context.WithTimeout(ctx, preStartTimeout)
	defer cancel()
	if _, err := endpoint.api.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}

// add merges one answer; what is there already stays.
func (s *Settings) add(r *pluginapi.ContainerAllocateResponse) {
	for name, value := range r.GetEnvs() {
		if _, ok := s.Envs[name]; !ok {
			s.Envs[name] = value
		}
	}
	for name, value := range r.GetAnnotations() {
		if _, ok := s.Annotations[name]; !ok {
			s.Annotations[name] = value
		}
	}
	for _, m := range r.GetMounts() {
		if !slices.ContainsFunc(s.Mounts, func(o *pluginapi.Mount) bool { return o.GetContainerPath() == m.GetContainerPath() }) {
			s.Mounts = append(s.Mounts, proto.CloneOf(m))
		}
	}
	for _, d := range r.GetDevices() {
		if !slices.ContainsFunc(s.Devices, func(o *pluginapi.DeviceSpec) bool { return o.GetContainerPath() == d.GetContainerPath() }) {
			s.Devices = append(s.Devices, proto.CloneOf(d))
		}
	}
	for _, d := range r.GetCdiDevices() {
		if !slices.Contains(s.CDIDevices, d.GetName()) {
			s.CDIDevices = append(s.CDIDevices, d.GetName())
		}
	}
}

// Admit admits a pod without devices. The pod-resources API lists it, as kubelet's lists every pod of the node
// (pkg/kubelet/apis/podresources/server_v1.go).
func (k *Kubelet) Admit(pod string) {
	k.update(Event{Type: EventAdmitted, Pod: pod}, func() {
		if k.pods[pod] == nil {
			k.pods[pod] = map[string]map[string]*allocation{}
		}
	})
}

// Free ends a pod: its devices may be allocated again. There is no call to the
// plugin; it can see the release in the pod-resources API only.
func (k *Kubelet) Free(pod string) {
	k.update(Event{Type: EventFreed, Pod: pod}, func() { delete(k.pods, pod) })
}

// Allocations are all the allocations, sorted by pod, container and resource.
func (k *Kubelet) Allocations() []Allocation {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Allocation
	for _, pod := range slices.Sorted(maps.Keys(k.pods)) {
		for _, container := range slices.Sorted(maps.Keys(k.pods[pod])) {
			for _, resource := range slices.Sorted(maps.Keys(k.pods[pod][container])) {
				all = append(all, *export(pod, container, resource, k.pods[pod][container][resource]))
			}
		}
	}
	return all
}
