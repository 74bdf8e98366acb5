package realkubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// pollEvery is how often the Wait functions look: the device manager tells
// nobody when its capacity changes, kubelet asks it too.
const pollEvery = 2 * time.Millisecond

// Counts is what kubelet would write into the node's status for a resource.
type Counts struct {
	// Known is false if kubelet never heard of the resource, or forgot it.
	Known       bool
	Capacity    int64
	Allocatable int64
}

// String is for failures.
func (c Counts) String() string {
	if !c.Known {
		return "unknown to kubelet"
	}
	return fmt.Sprintf("capacity %d, allocatable %d", c.Capacity, c.Allocatable)
}

// Counts asks for one resource. A stopped kubelet knows nothing.
func (k *Kubelet) Counts(resource string) Counts {
	s, err := k.session()
	if err != nil {
		return Counts{}
	}
	capacity, allocatable, _ := s.devices.GetCapacity(k.log)
	c, known := capacity[v1.ResourceName(resource)]
	a := allocatable[v1.ResourceName(resource)]
	return Counts{Known: known, Capacity: c.Value(), Allocatable: a.Value()}
}

// WaitCounts waits until the resource has the capacity and the allocatable, and
// returns how long that took. The error says what kubelet has instead.
func (k *Kubelet) WaitCounts(ctx context.Context, resource string, capacity, allocatable int64) (time.Duration, error) {
	want := Counts{Known: true, Capacity: capacity, Allocatable: allocatable}
	var got Counts
	took, err := Poll(ctx, func() bool {
		got = k.Counts(resource)
		return got == want
	})
	if err != nil {
		return took, fmt.Errorf("%s after %v: %v; want %v", resource, took.Round(time.Millisecond), got, want)
	}
	return took, nil
}

// Poll calls done until it returns true or ctx ends, and returns how long it took.
func Poll(ctx context.Context, done func() bool) (time.Duration, error) {
	start := time.Now()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if done() {
			return time.Since(start), nil
		}
		select {
		case <-ctx.Done():
			return time.Since(start), ctx.Err()
		case <-tick.C:
		}
	}
}

// Healthy lists the IDs of the resource's healthy devices, sorted, whether
// allocated or not.
func (k *Kubelet) Healthy(resource string) []string {
	s, err := k.session()
	if err != nil {
		return nil
	}
	var ids []string
	for id := range s.devices.GetAllocatableDevices(k.log)[resource] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Devices lists what a container was given of the resource, sorted, each with
// the NUMA nodes that kubelet has on record.
func (k *Kubelet) Devices(pod *v1.Pod, container, resource string) []Device {
	s, err := k.session()
	if err != nil {
		return nil
	}
	var out []Device
	for id, d := range s.devices.GetDevices(string(pod.UID), container)[resource] {
		out = append(out, Device{ID: id, NUMANodes: numaNodes(d)})
	}
	slices.SortFunc(out, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Device is a device that a container holds.
type Device struct {
	ID        string
	NUMANodes []int64
}

func numaNodes(d *pluginapi.Device) []int64 {
	var nodes []int64
	for _, n := range d.GetTopology().GetNodes() {
		nodes = append(nodes, n.GetID())
	}
	slices.Sort(nodes)
	return nodes
}

// PodHealth is what kubelet would write into pod.status for the containers'
// devices (allocatedResourcesStatus), by device ID.
func (k *Kubelet) PodHealth(pod *v1.Pod) map[string]v1.ResourceHealthStatus {
	s, err := k.session()
	if err != nil {
		return nil
	}
	status := &v1.PodStatus{}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{Name: c.Name})
	}
	s.devices.UpdateAllocatedResourcesStatus(k.log, pod, status)
	out := map[string]v1.ResourceHealthStatus{}
	for _, c := range status.ContainerStatuses {
		for _, r := range c.AllocatedResourcesStatus {
			for _, h := range r.Resources {
				out[string(h.ResourceID)] = h.Health
			}
		}
	}
	return out
}

// Recording is what a resource's counts were over a stretch of time.
type Recording struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	start  time.Time

	mu      sync.Mutex
	samples int
	changes []Change
}

// Change is a moment at which the counts were not what they were before.
type Change struct {
	After  time.Duration
	Counts Counts
}

// Record samples the counts of a resource at every interval until Stop.
func (k *Kubelet) Record(resource string, every time.Duration) *Recording {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recording{cancel: cancel, start: time.Now()}
	r.add(k.Counts(resource))
	r.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.add(k.Counts(resource))
			}
		}
	})
	return r
}

func (r *Recording) add(c Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples++
	if n := len(r.changes); n == 0 || r.changes[n-1].Counts != c {
		r.changes = append(r.changes, Change{After: time.Since(r.start), Counts: c})
	}
}

// Samples is how many were taken so far.
func (r *Recording) Samples() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.samples
}

// Stop ends the recording and returns the number of samples and every change,
// the first of which is what the counts were at the start.
func (r *Recording) Stop() (samples int, changes []Change) {
	r.cancel()
	r.done.Wait()
	return r.samples, r.changes
}
