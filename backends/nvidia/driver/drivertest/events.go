package drivertest

import (
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// eventSet is a set of events.
type eventSet struct {
	mock.EventSet
	l      *Library
	events chan nvml.EventData
	wanted map[*GPU]uint64
	freed  bool
}

// Send makes a GPU have an event. It reaches every set that the GPU is in.
func (g *GPU) Send(kind, data uint64, gpuInstance, computeInstance uint32) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	for _, set := range g.l.sets {
		if set.wanted[g]&kind != 0 {
			set.events <- nvml.EventData{Device: g, EventType: kind, EventData: data, GpuInstanceId: gpuInstance,
				ComputeInstanceId: computeInstance}
		}
	}
}

// XID makes the whole GPU have a critical error.
func (g *GPU) XID(code uint64) { g.Send(nvml.EventTypeXidCriticalError, code, Whole, Whole) }

// Sets returns the number of sets of events.
func (l *Library) Sets() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sets)
}

func (l *Library) createSet() (nvml.EventSet, nvml.Return) {
	if ret := l.enter(-1, "nvmlEventSetCreate"); ret != nvml.SUCCESS {
		return nil, ret
	}
	set := &eventSet{l: l, events: make(chan nvml.EventData, 4096), wanted: map[*GPU]uint64{}}
	set.WaitFunc = set.wait
	set.FreeFunc = set.free
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sets = append(l.sets, set)
	return set, nvml.SUCCESS
}

func (set *eventSet) wait(milliseconds uint32) (nvml.EventData, nvml.Return) {
	if ret := set.l.enter(-1, "nvmlEventSetWait"); ret != nvml.SUCCESS {
		return nvml.EventData{}, ret
	}
	timer := time.NewTimer(time.Duration(milliseconds) * time.Millisecond)
	defer timer.Stop()
	select {
	case e := <-set.events:
		return e, nvml.SUCCESS
	case <-timer.C:
		return nvml.EventData{}, nvml.ERROR_TIMEOUT
	}
}

func (set *eventSet) free() nvml.Return {
	ret := set.l.enter(-1, "nvmlEventSetFree")
	set.l.mu.Lock()
	defer set.l.mu.Unlock()
	if set.freed {
		panic("double free of an event set") //nolint:forbidigo // so does a real process end
	}
	set.freed = true
	set.l.sets = slices.DeleteFunc(set.l.sets, func(s *eventSet) bool { return s == set })
	return ret
}

func (g *GPU) serveEvents() {
	g.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) {
		return get(g, "nvmlDeviceGetSupportedEventTypes", func() uint64 { return nvml.EventTypeAll })
	}
	g.RegisterEventsFunc = func(wanted uint64, to nvml.EventSet) nvml.Return {
		set := to.(*eventSet)
		if ret := g.l.enter(g.index, "nvmlDeviceRegisterEvents"); ret != nvml.SUCCESS {
			return ret
		}
		g.l.mu.Lock()
		defer g.l.mu.Unlock()
		if set.freed {
			panic("use of a freed event set") //nolint:forbidigo // so does a real process end
		}
		set.wanted[g] |= wanted
		return nvml.SUCCESS
	}
}
