package reset

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pair = []Function{
	{Name: "GPU a", PCIBusID: "00000000:10:00.0"},
	{Name: "GPU b", PCIBusID: "0001:20:00.0"},
}

const (
	firstReset  = "sys/bus/pci/devices/0000:10:00.0/reset"
	secondReset = "sys/bus/pci/devices/0001:20:00.0/reset"
)

func hostOf(f sysroot.Files) sdk.HostPaths {
	return sdk.HostPaths{Sysfs: f.Path("sys"), Procfs: f.Path("proc")}
}

// A reset needs a kernel that has one for each function.
func TestByPCI(t *testing.T) {
	n := sysroot.NewFiles(t)
	refused := func(want string, functions ...Function) {
		t.Helper()
		done, err := ByPCI(t.Context(), hostOf(n), functions...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("done: %q, %v, want an error with %q", done, err, want)
		}
	}
	n.File(firstReset, "")
	refused("GPU b by PCI: the kernel has no reset for it", pair...)
	n.File(secondReset, "")
	refused("nowhere", Function{Name: "GPU a", PCIBusID: "nowhere"})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ByPCI(over, hostOf(n), pair[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is over: %v", err)
	}
	holds(t, n.Path(firstReset), "")
	holds(t, n.Path(secondReset), "")
	done, err := ByPCI(t.Context(), hostOf(n), pair...)
	if err != nil || done != "PCI reset of 00000000:10:00.0, 0001:20:00.0" {
		t.Errorf("done: %q, %v", done, err)
	}
	holds(t, n.Path(firstReset), "1")
	holds(t, n.Path(secondReset), "1")
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); string(text) != want || err != nil {
		t.Errorf("%s is %q, %v, want %q", path, text, err, want)
	}
}

// A reset that hangs in the kernel is abandoned, and none begins before it ends.
func TestHangs(t *testing.T) {
	n := sysroot.NewFiles(t)
	n.File(firstReset, "")
	if err := sysroot.FIFO(n.Path(firstReset)); err != nil { // opening it waits for a reader
		t.Fatal(err)
	}
	r := NewRunner()
	reset := func(ctx context.Context) (string, error) { return ByPCI(ctx, hostOf(n), pair[0]) }
	for _, want := range []string{"abandoned", "earlier reset"} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := r.Run(ctx, reset)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("a reset that hangs: %v, want %q", err, want)
		}
	}
	reader, err := os.OpenFile(n.Path(firstReset), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if done, err := r.Run(t.Context(), reset); err != nil || !strings.HasPrefix(done, "PCI reset of") {
		t.Errorf("when it has ended: %q, %v", done, err)
	}
}
