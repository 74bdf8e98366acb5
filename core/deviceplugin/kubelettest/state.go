package kubelettest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// State is a copy of the stand-in's state at one moment.
type State struct {
	Running bool
	// Resources are by name: those with a connection, and those that had one.
	Resources map[string]Resource
	// Pods are the names of the pods that hold devices or were admitted without, sorted.
	Pods   []string
	Counts Counts
}

// Resource is what the stand-in knows of one resource.
type Resource struct {
	// Capacity counts all devices, Allocatable the healthy ones.
	Capacity, Allocatable int
	// Allocated counts devices that pods hold.
	Allocated int
	// Connections counts plugin connections that serve the resource now.
	Connections int
	// Socket is the path of the connection that answers calls; "" without one.
	Socket string
	// The options of that connection.
	PreStartRequired, PreferredAllocation bool
	// Updates counts the lists received since the start.
	Updates int
}

// Counts grow over the stand-in's whole life, restarts included.
type Counts struct {
	// Registered counts connections that were accepted, by either way.
	Registered int
	// Refused counts registrations that failed, for whatever reason.
	Refused int
	// Duplicates counts those refused because the socket was connected already.
	Duplicates int
	// Updates counts lists received, Broken the streams that ended.
	Updates, Broken int
	// Allocations counts Allocate calls that a plugin answered.
	Allocations int
}

// Device is a device as the stand-in knows it.
type Device struct {
	ID      string
	Healthy bool
	// NUMANodes is sorted; empty if the plugin sent no topology.
	NUMANodes []int
}

// EventType is the kind of an event.
type EventType string

// The events.
const (
	EventStarted          EventType = "started"
	EventStopped          EventType = "stopped"
	EventRegistered       EventType = "registered"
	EventRefused          EventType = "registration refused"
	EventDevices          EventType = "devices updated"
	EventBroken           EventType = "stream broken"
	EventAdmitted         EventType = "admitted"
	EventAllocated        EventType = "allocated"
	EventContainerStarted EventType = "container started"
	EventFreed            EventType = "freed"
)

// Event is one change. Fields that do not apply are zero.
type Event struct {
	At       time.Time
	Type     EventType
	Resource string
	// Socket is the plugin's socket path.
	Socket string
	// Capacity and Allocatable are the resource's after the event.
	Capacity, Allocatable int
	// Listed and Healthy are what the list of an EventDevices holds.
	Listed, Healthy int
	Pod, Container  string
	// Devices are the IDs of an EventAllocated.
	Devices []string
	// Err is why a registration was refused or a stream broke.
	Err error
}

// update runs change under the lock, wakes the waiters and delivers the event.
// It must not be called with mu held.
func (k *Kubelet) update(event Event, change func()) {
	k.events.Lock()
	defer k.events.Unlock()
	k.mu.Lock()
	change()
	event.At = time.Now()
	if r, ok := k.manager.resources[event.Resource]; ok {
		event.Capacity, event.Allocatable = r.counts()
	}
	close(k.changed)
	k.changed = make(chan struct{})
	k.mu.Unlock()
	k.log.Debug("stand-in kubelet", "event", string(event.Type), "resource", event.Resource,
		"socket", event.Socket, "allocatable", event.Allocatable, "pod", event.Pod)
	if k.opts.OnEvent != nil {
		k.opts.OnEvent(event)
	}
}

// State returns the current state.
func (k *Kubelet) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state()
}

func (k *Kubelet) state() State {
	k.manager.expire(stopGrace)
	s := State{
		Running:   k.process != nil,
		Resources: make(map[string]Resource, len(k.manager.resources)),
		Pods:      slices.Sorted(maps.Keys(k.pods)),
		Counts:    k.counts,
	}
	for name, r := range k.manager.resources {
		out := Resource{Connections: len(r.endpoints), Updates: r.updates, Allocated: len(k.inUse(name))}
		out.Capacity, out.Allocatable = r.counts()
		if r.primary != nil {
			out.PreStartRequired = r.primary.options.GetPreStartRequired()
			out.PreferredAllocation = r.primary.options.GetGetPreferredAllocationAvailable()
			if r.stoppedAt.IsZero() {
				out.Socket = r.primary.socket
			}
		}
		s.Resources[name] = out
	}
	return s
}

// WaitFor returns when the condition holds, or with the context's error and the
// last state. The condition is called at once and after every change; it must
// not call the stand-in.
func (k *Kubelet) WaitFor(ctx context.Context, condition func(State) bool) error {
	for {
		k.mu.Lock()
		state, changed := k.state(), k.changed
		k.mu.Unlock()
		if condition(state) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the stand-in kubelet (last state %+v): %w", state, ctx.Err())
		}
	}
}

// Capacity is the number of a resource's devices, healthy or not.
func (k *Kubelet) Capacity(resource string) int { return k.State().Resources[resource].Capacity }

// Allocatable is the number of a resource's healthy devices.
func (k *Kubelet) Allocatable(resource string) int { return k.State().Resources[resource].Allocatable }

// Devices are a resource's devices, sorted by ID.
func (k *Kubelet) Devices(resource string) []Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.manager.resources[resource]
	if !ok {
		return nil
	}
	devices := make([]Device, 0, len(r.devices))
	for _, id := range slices.Sorted(maps.Keys(r.devices)) {
		_, healthy := r.healthy[id]
		devices = append(devices, Device{ID: id, Healthy: healthy, NUMANodes: numaNodes(r.devices[id])})
	}
	return devices
}

func numaNodes(d *pluginapi.Device) []int {
	var nodes []int
	for _, node := range d.GetTopology().GetNodes() {
		nodes = append(nodes, int(node.GetID()))
	}
	slices.Sort(nodes)
	return nodes
}
