package driver

import (
	"context"
	"runtime"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// maxSystemEvents is how many events of the system one wait takes.
const maxSystemEvents = 16

// systemEvents are GPUs that the kernel module takes and leaves (R570 and newer).
type systemEvents struct {
	s   *session
	set nvml.SystemEventSet
}

// listenSystem hands on the events of the system until ctx ends, where there are
// such.
func (e *Stream) listenSystem(ctx context.Context, s *session) {
	for _, function := range []string{"nvmlSystemEventSetCreate", "nvmlSystemEventSetFree", "nvmlSystemRegisterEvents",
		"nvmlSystemEventSetWait"} {
		if !s.has(function) {
			return
		}
	}
	create := nvml.SystemEventSetCreateRequest{}
	create.Version = nvml.STRUCT_VERSION(create, 1)
	if s.lib.SystemEventSetCreate(&create) != nvml.SUCCESS {
		return
	}
	w := systemEvents{s: s, set: create.Set}
	register := nvml.SystemRegisterEventRequest{
		EventTypes: nvml.SystemEventTypeGpuDriverBind | nvml.SystemEventTypeGpuDriverUnbind,
		Set:        w.set,
	}
	register.Version = nvml.STRUCT_VERSION(register, 1)
	if s.lib.SystemRegisterEvents(&register) != nvml.SUCCESS {
		w.free()
		return
	}
	// What fails here is no trouble of a GPU: it is tried again, and not told.
	e.loop(ctx, w, false)
}

func (w systemEvents) renew(context.Context) error { return nil }

func (w systemEvents) wait(limit time.Duration) ([]Event, error) {
	data := make([]nvml.SystemEventData_v1, maxSystemEvents)
	// The request holds a pointer, so the library's may only see it pinned.
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&data[0])
	request := nvml.SystemEventSetWaitRequest{
		Timeoutms: uint32(limit.Milliseconds()),
		Set:       w.set,
		Data:      &data[0],
		DataSize:  maxSystemEvents,
	}
	request.Version = nvml.STRUCT_VERSION(request, 1)
	switch ret := w.s.lib.SystemEventSetWait(&request); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_TIMEOUT:
		return nil, nil
	default:
		return nil, failure("nvmlSystemEventSetWait", ret)
	}
	var events []Event
	for _, d := range data[:min(request.NumEvent, maxSystemEvents)] {
		event := Event{Data: uint64(d.GpuId), GPUInstance: Whole, ComputeInstance: Whole}
		switch d.EventType {
		case nvml.SystemEventTypeGpuDriverBind:
			event.Type = EventBound
		case nvml.SystemEventTypeGpuDriverUnbind:
			event.Type = EventUnbound
		default:
			continue
		}
		events = append(events, event)
	}
	return events, nil
}

func (w systemEvents) free() {
	request := nvml.SystemEventSetFreeRequest{Set: w.set}
	request.Version = nvml.STRUCT_VERSION(request, 1)
	_ = w.s.lib.SystemEventSetFree(&request)
}
