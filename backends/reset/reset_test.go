package reset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pair = []Function{
	{Name: "GPU a", PCIBusID: "00000000:10:00.0", Nodes: []string{"/dev/gpu0"}},
	{Name: "GPU b", PCIBusID: "0001:20:00.0", Nodes: []string{"/dev/gpu1", "/dev/dri/renderD129"}},
}

const (
	firstReset  = "sys/bus/pci/devices/0000:10:00.0/reset"
	secondReset = "sys/bus/pci/devices/0001:20:00.0/reset"
	ownPIDs     = "proc/self/ns/pid"
)

// node is the root of a test's node.
type node struct {
	t   *testing.T
	dir string
}

func newNode(t *testing.T) *node { return &node{t: t, dir: t.TempDir()} }

func (n *node) path(name string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	return path
}

func (n *node) host() sdk.HostPaths {
	return sdk.HostPaths{Sysfs: n.path("sys"), Procfs: n.path("proc")}
}

func (n *node) empty(name string) {
	n.t.Helper()
	if err := os.WriteFile(n.path(name), nil, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) link(name, to string) {
	n.t.Helper()
	if err := os.Symlink(to, n.path(name)); err != nil {
		n.t.Fatal(err)
	}
}

// A reset needs a kernel that has one, access to all processes, and no process that has a node
// of the device open.
func TestByPCI(t *testing.T) {
	n := newNode(t)
	refused := func(want string, functions ...Function) {
		t.Helper()
		done, err := ByPCI(t.Context(), n.host(), functions...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("done: %q, %v, want an error with %q", done, err, want)
		}
	}
	n.empty(firstReset)
	refused("GPU b by PCI: the kernel has no reset for it", pair...)
	n.empty(secondReset)
	refused("hostPID", pair...)
	n.link(ownPIDs, "pid:[4026531836]")
	refused("GPU a, but its device nodes are not known", Function{Name: "GPU a", PCIBusID: "0000:10:00.0"})
	refused("nowhere", Function{Name: "GPU a", PCIBusID: "nowhere", Nodes: []string{"/dev/gpu0"}})
	n.link("proc/12/fd/4", "/dev/dri/renderD129")
	refused("processes have /dev/gpu0, /dev/gpu1, /dev/dri/renderD129 open: 12", pair...)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ByPCI(over, n.host(), pair[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is over: %v", err)
	}
	for name, want := range map[string]string{firstReset: "", secondReset: ""} {
		n.holds(name, want)
	}
	if err := os.Remove(n.path("proc/12/fd/4")); err != nil {
		t.Fatal(err)
	}
	done, err := ByPCI(t.Context(), n.host(), pair...)
	if err != nil || done != "PCI reset of 00000000:10:00.0, 0001:20:00.0" {
		t.Errorf("done: %q, %v", done, err)
	}
	n.holds(firstReset, "1")
	n.holds(secondReset, "1")
}

func (n *node) holds(name, want string) {
	n.t.Helper()
	if text, err := os.ReadFile(n.path(name)); string(text) != want || err != nil {
		n.t.Errorf("%s is %q, %v, want %q", name, text, err, want)
	}
}

// A reset that hangs in the kernel is abandoned, and none begins before it ends.
func TestHangs(t *testing.T) {
	n := newNode(t)
	n.link(ownPIDs, "pid:[4026531836]")
	if err := unix.Mkfifo(n.path(firstReset), 0o600); err != nil { // opening it waits for a reader
		t.Fatal(err)
	}
	r := NewRunner()
	reset := func(ctx context.Context) (string, error) { return ByPCI(ctx, n.host(), pair[0]) }
	for _, want := range []string{"abandoned", "earlier reset"} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := r.Run(ctx, reset)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("a reset that hangs: %v, want %q", err, want)
		}
	}
	reader, err := os.OpenFile(n.path(firstReset), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if done, err := r.Run(t.Context(), reset); err != nil || !strings.HasPrefix(done, "PCI reset of") {
		t.Errorf("when it has ended: %q, %v", done, err)
	}
}
