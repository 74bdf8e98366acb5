package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the driver on a library and closes it at the end of the test.
func open(t *testing.T, l *drivertest.Library) *driver.Driver {
	t.Helper()
	d := driver.New(driver.Options{Load: l.Load})
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n := l.Initialised(); n != 0 {
			t.Errorf("the library is still initialised %d times", n)
		}
	})
	return d
}

func snapshot(t *testing.T, d *driver.Driver) driver.Snapshot {
	t.Helper()
	s, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sound checks that all GPUs except some were read completely.
func sound(t *testing.T, s driver.Snapshot, but ...int) {
	t.Helper()
	for i, g := range s.GPUs {
		bad := false
		for _, b := range but {
			bad = bad || b == i
		}
		if bad != (g.Err != nil) {
			t.Errorf("GPU %d: error %v, want one: %v", i, g.Err, bad)
		}
		if !bad && (g.UUID == "" || g.PCIBusID == "" || g.MemoryBytes == 0) {
			t.Errorf("GPU %d: not read: %+v", i, g)
		}
	}
}

func receive(t *testing.T, stream *driver.Stream) driver.Event {
	t.Helper()
	select {
	case e, ok := <-stream.Events():
		if !ok {
			t.Fatal("the stream ended")
		}
		return e
	case <-time.After(patience.Long):
		t.Fatal("no event came")
	}
	return driver.Event{}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

var unknown = nvml.ERROR_UNKNOWN
