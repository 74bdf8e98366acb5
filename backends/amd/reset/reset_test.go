package reset

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var hive = []GPU{
	{ID: "a", PCIBusID: "0000:05:00.0", Card: 1, KFDIDs: []uint32{100}},
	{ID: "b", PCIBusID: "0000:26:00.0", Card: 2, KFDIDs: []uint32{200, 201}},
}

const (
	debugFirst  = "sys/kernel/debug/dri/1/amdgpu_gpu_recover"
	debugSecond = "sys/kernel/debug/dri/0000:26:00.0/amdgpu_gpu_recover"
)

// node is a node of a test.
type node struct {
	sysroot.Files
	t *testing.T
}

func newNode(t *testing.T) *node { return &node{Files: sysroot.NewFiles(t), t: t} }

func (n *node) reset(ctx context.Context, m Method) (string, error) {
	host := sdk.HostPaths{Sysfs: n.Path("sys"), Procfs: n.Path("proc")}
	return Settings{Method: m}.Reset(ctx, host, hive)
}

func (n *node) refused(m Method, want string) {
	n.t.Helper()
	done, err := n.reset(n.t.Context(), m)
	if err == nil || !strings.Contains(err.Error(), want) {
		n.t.Errorf("done: %q, %v, want an error with %q", done, err, want)
	}
}

// The driver resets a hive as a whole: only one of its files is read.
func TestDriverOncePerHive(t *testing.T) {
	n := newNode(t)
	n.File(debugFirst, "0\n")
	n.File(debugSecond, "-5\n")
	done, err := n.reset(t.Context(), Auto)
	if err != nil || done != "the driver's reset of a, b" {
		t.Errorf("done: %q, %v", done, err)
	}
	n.Remove(debugFirst) // the other directory's name is by the device
	n.refused(Driver, `the driver's reset of a, b failed with "-5"`)
}

// Without debugfs Auto is the PCI reset, of all GPUs, with all that it needs.
func TestPCI(t *testing.T) {
	n := newNode(t)
	n.refused(Driver, "mount debugfs")
	for _, g := range hive {
		n.File("sys/bus/pci/devices/"+g.PCIBusID+"/reset", "")
	}
	done, err := n.reset(t.Context(), Auto)
	if err != nil || done != "PCI reset of 0000:05:00.0, 0000:26:00.0" {
		t.Errorf("done: %q, %v", done, err)
	}
	n.File(debugFirst, "0\n")
	if done, err := n.reset(t.Context(), PCI); err != nil || !strings.HasPrefix(done, "PCI") {
		t.Errorf("done: %q, %v, want PCI", done, err)
	}
}

// No GPU is reset that a process computes on or has memory of, and not while that cannot be known.
func TestInUse(t *testing.T) {
	n := newNode(t)
	n.File(debugFirst, "0\n")
	n.File("sys/class/kfd/kfd/proc/41/queues/0/gpuid", "300\n")
	n.File("sys/class/kfd/kfd/proc/41/vram_201", "0\n")
	n.File("sys/class/kfd/kfd/proc/41/vram_300", "4096\n")
	if _, err := n.reset(t.Context(), Auto); err != nil {
		t.Errorf("another GPU is in use: %v", err)
	}
	n.File("sys/class/kfd/kfd/proc/41/vram_201", "4096\n")
	n.File("proc/41/comm", "python\n")
	n.refused(Auto, "in use by python (41)")
	n.File("sys/class/kfd/kfd/proc/41/vram_201", "0\n")
	n.File("sys/class/kfd/kfd/proc/41/queues/1/gpuid", "100\n")
	n.refused(Auto, "in use by python (41)")
	n.File("sys/class/kfd/kfd/proc/41/queues/1/gpuid", "\xff\n")
	n.refused(Auto, "which processes compute on it is not known")
}

// Never is never.
func TestSettings(t *testing.T) {
	n := newNode(t)
	n.File(debugFirst, "0\n")
	if _, err := n.reset(t.Context(), Never); !errors.Is(err, ErrNever) {
		t.Errorf("never: %v", err)
	}
}
