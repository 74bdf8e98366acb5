package driver_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

func listen(t *testing.T, d *driver.Driver) *driver.Stream {
	t.Helper()
	stream, err := d.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func TestEvents(t *testing.T) {
	l := drivertest.New("H100 80GB", 4)
	d := open(t, l)
	s := snapshot(t, d)
	stream := listen(t, d)
	if u := stream.Unsubscribed(); len(u) != 0 {
		t.Error(u)
	}
	l.GPUs[2].XID(79)
	e := receive(t, stream)
	if e.Type != driver.EventXID || e.XID != 79 || e.GPU != s.GPUs[2].UUID || e.PCIBusID != "0000:30:00.0" ||
		e.GPUInstance != driver.Whole || e.ComputeInstance != driver.Whole || e.Time.IsZero() {
		t.Errorf("%+v", e)
	}
	l.GPUs[1].Send(nvml.EventTypeXidCriticalError, 94, 7, 0)
	if e = receive(t, stream); e.XID != 94 || e.GPUInstance != 7 || e.ComputeInstance != 0 {
		t.Errorf("%+v", e)
	}
	for kind, want := range map[uint64]driver.EventType{
		nvml.EventTypeDoubleBitEccError: driver.EventECC, nvml.EventTypeDramRetirementEvent: driver.EventRetirement,
		nvml.EventTypeDramRetirementFailure: driver.EventRetirementFailed, nvml.EventTypeNonFatalPoisonError: driver.EventPoison,
		nvml.EventTypeFatalPoisonError: driver.EventFatalPoison, nvml.EventTypeGpuUnavailableError: driver.EventUnavailable,
		nvml.EventTypeGpuRecoveryAction: driver.EventRecovery, nvml.EventMigConfigChange: driver.EventMIG,
	} {
		l.GPUs[0].Send(kind, 5, driver.Whole, driver.Whole)
		if e = receive(t, stream); e.Type != want || e.Data != 5 || e.XID != 0 {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	// A GPU that stopped answering is identified by its handle.
	calls := l.Calls("nvmlDeviceGetUUID")
	l.Lose(3)
	l.GPUs[3].XID(79)
	if e = receive(t, stream); e.GPU != s.GPUs[3].UUID || l.Calls("nvmlDeviceGetUUID") != calls {
		t.Errorf("%+v", e)
	}
}

// A GPU that refuses MIG events still sends events of faults.
func TestMIGEventsRefused(t *testing.T) {
	l := drivertest.New("H100 80GB", 1)
	d := open(t, l)
	snapshot(t, d)
	register := l.GPUs[0].RegisterEventsFunc
	l.GPUs[0].RegisterEventsFunc = func(wanted uint64, set nvml.EventSet) nvml.Return {
		if wanted&nvml.EventMigConfigChange != 0 {
			return nvml.ERROR_NO_PERMISSION
		}
		return register(wanted, set)
	}
	stream := listen(t, d)
	if u := stream.Unsubscribed(); len(u) != 0 {
		t.Error(u)
	}
	l.GPUs[0].XID(79)
	if e := receive(t, stream); e.XID != 79 {
		t.Errorf("%+v", e)
	}
}

// A GPU that has no events, fails or hangs sends none; the others do.
func TestUnsubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drivertest.New("H100 80GB", 5)
		d := open(t, l)
		s := snapshot(t, d)
		l.Fail(0, "nvmlDeviceRegisterEvents", nvml.ERROR_NOT_SUPPORTED)
		l.Fail(1, "nvmlDeviceGetSupportedEventTypes", nvml.ERROR_NOT_SUPPORTED)
		l.Lose(2)
		release := l.Hang(3, "nvmlDeviceRegisterEvents")
		stream := listen(t, d)
		unsubscribed := stream.Unsubscribed()
		for i, want := range []error{driver.ErrNotSupported, driver.ErrNotSupported, driver.ErrLost, driver.ErrNoAnswer} {
			wantError(t, unsubscribed[s.GPUs[i].UUID], want)
		}
		if len(unsubscribed) != 4 {
			t.Error(unsubscribed)
		}
		if subscribed := stream.Subscribed(); len(subscribed) != 1 || !slices.Contains(subscribed[s.GPUs[4].UUID], driver.EventXID) {
			t.Error(subscribed)
		}
		l.GPUs[4].XID(48)
		if e := receive(t, stream); e.XID != 48 {
			t.Errorf("%+v", e)
		}
		// The set is freed when the call that uses it returns, not before.
		if err := stream.Close(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if l.Sets() != 1 {
			t.Errorf("%d sets while a call hangs", l.Sets())
		}
		release()
		synctest.Wait()
		if l.Sets() != 0 {
			t.Errorf("%d sets are left", l.Sets())
		}
	})
}

// A wait that fails is reported once, uses almost no CPU however long it fails, and
// recovers on its own.
func TestFailingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drivertest.New("H100 80GB", 2)
		d := open(t, l)
		s := snapshot(t, d)
		stream := listen(t, d)
		l.Fail(-1, "nvmlEventSetWait", nvml.ERROR_UNKNOWN)
		e := receive(t, stream)
		if e.Type != driver.EventBroken || e.Err == nil {
			t.Fatalf("%+v", e)
		}
		before := l.Calls("nvmlEventSetWait")
		l.Lose(1)
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's time
		if n := l.Calls("nvmlEventSetWait") - before; n < 100 || n > 300 {
			t.Errorf("%d waits in an hour", n)
		}
		if l.Sets() != 1 {
			t.Errorf("%d sets", l.Sets())
		}
		l.Fail(-1, "nvmlEventSetWait", nvml.SUCCESS)
		// A GPU that was lost meanwhile is left out, so that the others send events.
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		wantError(t, stream.Unsubscribed()[s.GPUs[1].UUID], driver.ErrLost)
		l.GPUs[0].XID(31)
		if e = receive(t, stream); e.Type != driver.EventMended {
			t.Errorf("%+v", e)
		}
		if e = receive(t, stream); e.XID != 31 {
			t.Errorf("%+v", e)
		}
	})
}

// Events that a slow reader misses are reported before any later event.
func TestMissedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drivertest.New("H100 80GB", 1)
		d := open(t, l)
		snapshot(t, d)
		stream := listen(t, d)
		const sent = 1000
		for i := range sent {
			l.GPUs[0].XID(uint64(i))
		}
		time.Sleep(5 * time.Second) //nolint:forbidigo // the bubble's time
		next, missed := uint64(0), uint64(0)
		for next < sent {
			time.Sleep(250 * time.Millisecond) //nolint:forbidigo // the bubble's time
			switch e := receive(t, stream); e.Type {
			case driver.EventXID:
				if e.XID != next {
					t.Fatalf("XID %d follows, want %d", e.XID, next)
				}
				next++
			case driver.EventMissed:
				missed += e.Data
				next += e.Data
			}
		}
		if missed == 0 || missed > sent-200 {
			t.Errorf("%d were missed", missed)
		}
		l.GPUs[0].XID(79)
		if e := receive(t, stream); e.XID != 79 {
			t.Errorf("%+v", e)
		}
	})
}

// Closing the driver ends its streams. While a wait hangs, the library stays
// initialized.
func TestCloseEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drivertest.New("H100 80GB", 2)
		d := open(t, l)
		snapshot(t, d)
		stream := listen(t, d)
		release := l.Hang(-1, "nvmlEventSetWait")
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's time
		wantError(t, d.Close(t.Context()), driver.ErrNoAnswer)
		if l.Initialised() != 1 {
			t.Error("it was shut down under a wait")
		}
		release()
		if err := d.Close(t.Context()); err != nil || l.Initialised() != 0 || l.Sets() != 0 {
			t.Errorf("%v, initialised %d times, %d sets", err, l.Initialised(), l.Sets())
		}
		if _, ok := <-stream.Events(); ok {
			t.Error("an event came after the end")
		}
		_, err := d.Listen(t.Context())
		wantError(t, err, driver.ErrClosed)
	})
}
