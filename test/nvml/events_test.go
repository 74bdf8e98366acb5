package nvml

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const all = uint32(0xFFFFFFFF)

func event(t *testing.T, double *Double, text string) {
	t.Helper()
	if _, err := double.Event(text); err != nil {
		t.Fatal(err)
	}
}

func registered(t *testing.T, lib nvml.Interface, types uint64, indexes ...int) nvml.EventSet {
	t.Helper()
	set, ret := lib.EventSetCreate()
	want(t, "EventSetCreate", ret, nvml.SUCCESS)
	for _, index := range indexes {
		want(t, "RegisterEvents", device(t, lib, index).RegisterEvents(types, set), nvml.SUCCESS)
	}
	return set
}

// A set gets the events it is registered for, in order and once.
func TestEvents(t *testing.T) {
	double, lib := initialised(t, 3)
	event(t, double, "gpu 0 xid 13")
	supported, ret := device(t, lib, 0).GetSupportedEventTypes()
	same(t, "GetSupportedEventTypes", supported, ret, nvml.EventTypeAll)
	set := registered(t, lib, nvml.EventTypeXidCriticalError|nvml.EventTypeGpuRecoveryAction, 0, 2)
	other := registered(t, lib, nvml.EventTypeAll, 1)
	_, ret = set.Wait(1)
	want(t, "Wait for what was before", ret, nvml.ERROR_TIMEOUT)
	for _, text := range []string{
		"gpu 0 xid 79", "gpu 1 xid 48", "gpu 2 xid 94 gi 4 ci 0", "gpu 0 type clock", "gpu 2 type gpu-recovery-action data 2", "gpu 0 type 0x8 data 31",
	} {
		event(t, double, text)
	}
	for _, expected := range []nvml.EventData{
		{Device: device(t, lib, 0), EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: all, ComputeInstanceId: all},
		{Device: device(t, lib, 2), EventType: nvml.EventTypeXidCriticalError, EventData: 94, GpuInstanceId: 4, ComputeInstanceId: 0},
		{Device: device(t, lib, 2), EventType: nvml.EventTypeGpuRecoveryAction, EventData: 2, GpuInstanceId: all, ComputeInstanceId: all},
		{Device: device(t, lib, 0), EventType: nvml.EventTypeXidCriticalError, EventData: 31, GpuInstanceId: all, ComputeInstanceId: all},
	} {
		data, ret := set.Wait(5000)
		same(t, "Wait", data, ret, expected)
	}
	_, ret = set.Wait(0)
	want(t, "Wait for no more", ret, nvml.ERROR_TIMEOUT)
	data, ret := other.Wait(5000)
	same(t, "Wait of another set", data.EventData, ret, 48)
	want(t, "Free", set.Free(), nvml.SUCCESS)
	_, ret = set.Wait(5000)
	want(t, "Wait of a freed set", ret, nvml.ERROR_INVALID_ARGUMENT)
}

// Verifies that an event of a whole GPU has the instance IDs that the file says, and
// that one of an instance keeps its own.
func TestEventInstancesOfNVIDIAMock(t *testing.T) {
	double, lib := initialised(t, 2)
	update(t, double, func(s State) { s.LikeNVIDIAMock(0, 1) })
	set := registered(t, lib, nvml.EventTypeXidCriticalError, 0, 1)
	event(t, double, "gpu 0 xid 79")
	event(t, double, "gpu 1 xid 94 gi 4 ci 1")
	for _, expected := range [][2]uint32{{0, 0}, {4, 1}} {
		data, ret := set.Wait(5000)
		same(t, "Wait", [2]uint32{data.GpuInstanceId, data.ComputeInstanceId}, ret, expected)
	}
}

// Each type has a name and arrives.
func TestEventTypes(t *testing.T) {
	double, lib := initialised(t, 1)
	set := registered(t, lib, nvml.EventTypeAll, 0)
	for name, kind := range map[string]uint64{
		"single-bit-ecc": nvml.EventTypeSingleBitEccError, "double-bit-ecc": nvml.EventTypeDoubleBitEccError,
		"pstate": nvml.EventTypePState, "xid": nvml.EventTypeXidCriticalError, "clock": nvml.EventTypeClock,
		"power-source": nvml.EventTypePowerSourceChange, "mig-config": nvml.EventMigConfigChange,
		"single-bit-ecc-storm": nvml.EventTypeSingleBitEccErrorStorm, "dram-retirement": nvml.EventTypeDramRetirementEvent,
		"dram-retirement-failure": nvml.EventTypeDramRetirementFailure, "non-fatal-poison": nvml.EventTypeNonFatalPoisonError,
		"fatal-poison": nvml.EventTypeFatalPoisonError, "gpu-unavailable": nvml.EventTypeGpuUnavailableError,
		"gpu-recovery-action": nvml.EventTypeGpuRecoveryAction,
	} {
		event(t, double, "gpu 0 type "+name)
		data, ret := set.Wait(5000)
		same(t, name, data.EventType, ret, kind)
	}
}

// A GPU may have no events, or not those asked for.
func TestEventsNotSupported(t *testing.T) {
	double, lib := initialised(t, 2)
	update(t, double, func(s State) {
		s.GPU(0).Delete("events")
		s.GPU(1).Set("events", nvml.EventTypeXidCriticalError)
	})
	set := registered(t, lib, 0)
	_, ret := device(t, lib, 0).GetSupportedEventTypes()
	want(t, "GetSupportedEventTypes", ret, nvml.ERROR_NOT_SUPPORTED)
	want(t, "RegisterEvents", device(t, lib, 0).RegisterEvents(8, set), nvml.ERROR_NOT_SUPPORTED)
	want(t, "RegisterEvents", device(t, lib, 1).RegisterEvents(nvml.EventTypeAll, set), nvml.ERROR_NOT_SUPPORTED)
	want(t, "RegisterEvents", device(t, lib, 1).RegisterEvents(8, set), nvml.SUCCESS)
}

// A wait ends with an event, an error and the library's end as soon as they come.
func TestWait(t *testing.T) {
	double, lib := initialised(t, 1)
	set := registered(t, lib, nvml.EventTypeAll, 0)
	waits := 0
	wait := func(change func()) nvml.Return {
		started := time.Now()
		done := make(chan nvml.Return)
		go func() {
			_, ret := set.Wait(60_000)
			done <- ret
		}()
		waits++
		await(t, double, func(calls []Call) bool {
			return len(slices.DeleteFunc(calls, func(c Call) bool { return c.Outcome != Waits })) == waits
		})
		change()
		defer soon(t, started)
		return <-done
	}
	want(t, "an event", wait(func() { event(t, double, "gpu 0 xid 79") }), nvml.SUCCESS)
	want(t, "an error", wait(func() {
		update(t, double, func(s State) { s.Driver().Fail("nvmlEventSetWait", "GPU_IS_LOST") })
	}), nvml.ERROR_GPU_IS_LOST)
	for range 3 {
		_, ret := set.Wait(60_000)
		want(t, "an error again", ret, nvml.ERROR_GPU_IS_LOST)
	}
	update(t, double, func(s State) { s.Driver().Mend("nvmlEventSetWait") })
	want(t, "Shutdown", wait(func() { _ = lib.Shutdown() }), nvml.ERROR_UNINITIALIZED)
	want(t, "Init", lib.Init(), nvml.SUCCESS)
	_, ret := set.Wait(60_000)
	want(t, "Wait of a set from before", ret, nvml.ERROR_INVALID_ARGUMENT)
}

// Sets are bounded.
func TestManySets(t *testing.T) {
	_, lib := initialised(t, 0)
	for range 64 {
		registered(t, lib, 0)
	}
	_, ret := lib.EventSetCreate()
	want(t, "EventSetCreate", ret, nvml.ERROR_INSUFFICIENT_RESOURCES)
}

// Many threads, while the file changes, see whole versions of it and every event.
func TestThreads(t *testing.T) {
	double, lib := initialised(t, 4)
	const events = 200
	var threads sync.WaitGroup
	for index := range 4 {
		set := registered(t, lib, nvml.EventTypeAll, index)
		threads.Go(func() {
			for n := range uint64(events) {
				if data, ret := set.Wait(60_000); ret != nvml.SUCCESS || data.EventData != n {
					t.Errorf("event %d: %v %v", n, data, ret)
					return
				}
			}
		})
		gpu := device(t, lib, index)
		threads.Go(func() {
			for range events {
				used, ret := gpu.GetUtilizationRates()
				if ret != nvml.SUCCESS || used.Gpu != used.Memory {
					t.Errorf("%+v %v", used, ret)
					return
				}
			}
		})
	}
	for n := range events {
		update(t, double, func(s State) {
			for slot := range 4 {
				s.GPU(slot).Set("utilization.gpu", n).Set("utilization.memory", n)
			}
		})
		for slot := range 4 {
			event(t, double, fmt.Sprintf("gpu %d xid %d", slot, n))
		}
	}
	threads.Wait()
}
