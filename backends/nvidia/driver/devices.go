package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// eventSet is a set of events of the library. A dropped set is freed when the last
// call that uses it has returned.
type eventSet struct {
	nvml.EventSet
	s *session

	mu      sync.Mutex
	users   int
	dropped bool
	gpus    map[nvml.Device]GPU // whose events are in it
}

// use runs f with the set, unless it was dropped.
func (set *eventSet) use(f func() error) error {
	set.mu.Lock()
	if set.dropped {
		set.mu.Unlock()
		return ErrClosed
	}
	set.users++
	set.mu.Unlock()
	defer set.leave()
	return f()
}

func (set *eventSet) leave() {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.users--
	set.freeIfUnused()
}

func (set *eventSet) drop() {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.dropped = true
	set.freeIfUnused()
}

func (set *eventSet) freeIfUnused() {
	if set.dropped && set.users == 0 && set.s.has("nvmlEventSetFree") {
		_ = set.Free()
	}
}

// deviceEvents reads the events of all GPUs for a stream.
type deviceEvents struct {
	d   *Driver
	s   *session
	e   *Stream
	set *eventSet
}

// renew makes a new set of the GPUs that answer: one lost GPU would make the wait
// for all of them fail.
func (w *deviceEvents) renew(ctx context.Context) error {
	created, err := within(ctx, w.d, w.s, w.d.system, "nvmlEventSetCreate", func() outcome[nvml.EventSet] {
		for _, function := range []string{"nvmlEventSetCreate", "nvmlEventSetWait", "nvmlDeviceRegisterEvents"} {
			if !w.s.has(function) {
				return outcome[nvml.EventSet]{err: fmt.Errorf("%s: %w by the library", function, ErrNotSupported)}
			}
		}
		set, ret := w.s.lib.EventSetCreate()
		return outcome[nvml.EventSet]{set, failure("nvmlEventSetCreate", ret)}
	})
	if err = errors.Join(err, created.err); err != nil {
		return err
	}
	set := &eventSet{EventSet: created.value, s: w.s, gpus: map[nvml.Device]GPU{}}
	gpus := w.s.identities()
	var all sync.WaitGroup
	var mu sync.Mutex
	subscribed, unsubscribed := map[string][]EventType{}, map[string]error{}
	for index, g := range gpus {
		all.Go(func() {
			registered, err := within(ctx, w.d, w.s, w.d.lane(index), fmt.Sprintf("events of GPU %d", index),
				func() (o outcome[uint64]) {
					o.err = set.use(func() (err error) {
						o.value, err = set.register(g)
						return err
					})
					return o
				})
			mu.Lock()
			defer mu.Unlock()
			if err = errors.Join(err, registered.err); err != nil {
				unsubscribed[g.UUID] = err
			} else {
				subscribed[g.UUID] = typesIn(registered.value)
			}
		})
	}
	all.Wait()
	w.free()
	w.set = set
	w.e.mu.Lock()
	w.e.subscribed, w.e.unsubscribed = subscribed, unsubscribed
	w.e.mu.Unlock()
	return nil
}

// typesIn returns the types of events in a mask of NVML.
func typesIn(mask uint64) (types []EventType) {
	for bit, t := range eventTypes {
		if mask&bit != 0 {
			types = append(types, t)
		}
	}
	slices.Sort(types)
	return types
}

// register subscribes to the eventTypes that the GPU supports, and returns the mask
// of those. It runs in the GPU's lane.
func (set *eventSet) register(g GPU) (uint64, error) {
	r := &reader{s: set.s}
	device, ok := r.handle(g.Index)
	if !ok {
		return 0, r.err
	}
	var wanted, supported uint64
	for t := range eventTypes {
		wanted |= t
	}
	r.call("nvmlDeviceGetSupportedEventTypes", func() (ret nvml.Return) {
		supported, ret = device.GetSupportedEventTypes()
		return ret
	})
	if r.err != nil {
		return 0, r.err
	}
	if wanted&supported == 0 {
		return 0, fmt.Errorf("nvmlDeviceGetSupportedEventTypes: %w: the GPU has no events", ErrNotSupported)
	}
	set.mu.Lock()
	set.gpus[device] = g
	set.mu.Unlock()
	wanted &= supported
	ret := device.RegisterEvents(wanted, set.EventSet)
	if health := wanted &^ nvml.EventMigConfigChange; ret != nvml.SUCCESS && health != wanted && health != 0 {
		// If MIG events are refused, a scan finds MIG devices. Events of faults
		// have no substitute.
		wanted = health
		ret = device.RegisterEvents(wanted, set.EventSet)
	}
	return wanted, failure("nvmlDeviceRegisterEvents", ret)
}

func (w *deviceEvents) wait(limit time.Duration) ([]Event, error) {
	data, ret := w.set.Wait(uint32(limit.Milliseconds()))
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_TIMEOUT:
		return nil, nil
	default:
		return nil, failure("nvmlEventSetWait", ret)
	}
	event := Event{Type: eventTypes[data.EventType], GPUInstance: data.GpuInstanceId, ComputeInstance: data.ComputeInstanceId}
	if event.Type == "" { // not subscribed
		return nil, nil
	}
	if event.Type == EventXID {
		event.XID = data.EventData
	} else {
		event.Data = data.EventData
	}
	event.GPU, event.PCIBusID = w.set.whose(data.Device)
	return []Event{event}, nil
}

// whose returns the GPU of a handle as it was registered, since a faulty GPU may not
// answer any more.
func (set *eventSet) whose(device nvml.Device) (uuid, bus string) {
	set.mu.Lock()
	g, ok := set.gpus[device]
	set.mu.Unlock()
	if ok || device == nil {
		return g.UUID, g.PCIBusID
	}
	r := &reader{s: set.s}
	r.call("nvmlDeviceGetUUID", func() (ret nvml.Return) {
		uuid, ret = device.GetUUID()
		return ret
	})
	return uuid, ""
}

func (w *deviceEvents) free() {
	if w.set != nil {
		w.set.drop()
		w.set = nil
	}
}
