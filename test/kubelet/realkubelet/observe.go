package realkubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

// pollEvery is how often counts are read: the device manager does not report changes.
const pollEvery = 2 * time.Millisecond

// answerLimit bounds how long kubelet may take to answer without a call of the plugin.
const answerLimit = time.Minute

// read asks for what kubelet answers without a call of the plugin.
func (k *Kubelet) read(method string, request, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	return k.call(ctx, method, request, answer)
}

// Counts is what kubelet would write into the node's status for a resource. Known is
// false if kubelet never heard of the resource, or forgot it.
type Counts wire.Counts

// String is for failures.
func (c Counts) String() string {
	if !c.Known {
		return "unknown to kubelet"
	}
	return fmt.Sprintf("capacity %d, allocatable %d", c.Capacity, c.Allocatable)
}

// Counts asks for one resource. A stopped kubelet knows nothing.
func (k *Kubelet) Counts(resource string) Counts {
	var c Counts
	if err := k.read("Counts", resource, &c); err != nil {
		return Counts{}
	}
	return c
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
	var ids []string
	if err := k.read("Healthy", resource, &ids); err != nil {
		return nil
	}
	return ids
}

// Device is a device that a container holds, with the NUMA nodes that kubelet has on
// record.
type Device = wire.Device

// Devices lists what a container was given of the resource, sorted.
func (k *Kubelet) Devices(pod *v1.Pod, container, resource string) []Device {
	var held map[string][]Device
	if err := k.read("Devices", wire.Container{Pod: string(pod.UID), Name: container}, &held); err != nil {
		return nil
	}
	return held[resource]
}

// PodHealth is what kubelet would write into pod.status for the containers'
// devices (allocatedResourcesStatus), by device ID.
func (k *Kubelet) PodHealth(pod *v1.Pod) map[string]v1.ResourceHealthStatus {
	var health map[string]v1.ResourceHealthStatus
	if err := k.read("PodHealth", string(pod.UID), &health); err != nil {
		return nil
	}
	return health
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

// Stop ends the recording and returns the number of samples and every change,
// the first of which is what the counts were at the start.
func (r *Recording) Stop() (samples int, changes []Change) {
	r.cancel()
	r.done.Wait()
	return r.samples, r.changes
}
