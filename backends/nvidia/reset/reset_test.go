package reset

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
)

var pair = []GPU{{UUID: "GPU-a", PCIBusID: "0000:10:00.0", Minor: 0}, {UUID: "GPU-b", PCIBusID: "0001:20:00.0", Minor: 1}}

// node is a node of a test.
type node struct {
	t   *testing.T
	dir string
}

func newNode(t *testing.T) *node { return &node{t: t, dir: t.TempDir()} }

// path returns a path on the node, whose directory exists.
func (n *node) path(name string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	return path
}

func (n *node) empty(name string, mode os.FileMode) {
	n.t.Helper()
	if err := os.WriteFile(n.path(name), nil, mode); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) link(name, to string) {
	n.t.Helper()
	if err := os.Symlink(to, n.path(name)); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) means(s Settings, root string) *Means {
	n.t.Helper()
	m, err := NewMeans("reset", s, root, sdk.HostPaths{Sysfs: n.path("sys"), Procfs: n.path("proc")})
	if err != nil {
		n.t.Fatal(err)
	}
	return m
}

// The tool is searched in the driver's root, and runs with that as its root directory.
func TestToolInDriverRoot(t *testing.T) {
	n := newNode(t)
	n.empty("driver/usr/bin/nvidia-smi", 0o700)
	smi := n.means(Settings{}, n.path("driver")).smi()
	if path, err := smi.Find(); err != nil || path != "/usr/bin/nvidia-smi" || smi.Root != n.path("driver") {
		t.Fatalf("nvidia-smi is at %q in %s, %v", path, smi.Root, err)
	}
	smi = n.means(Settings{Tool: "/opt/smi"}, n.path("driver")).smi()
	if path, err := smi.Find(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nvidia-smi is at %q, %v, though settings have it elsewhere", path, err)
	}
}

// Without the tool, Auto is the PCI reset, with the minor numbers of the GPUs.
func TestPCI(t *testing.T) {
	n := newNode(t)
	m := n.means(Settings{}, n.dir)
	refused := func(gpus []GPU, want string) {
		t.Helper()
		done, err := m.Reset(t.Context(), reset.NewRunner(), gpus)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("done: %q, %v, want an error with %q", done, err, want)
		}
	}
	n.empty("sys/bus/pci/devices/0000:10:00.0/reset", 0o600)
	n.empty("sys/bus/pci/devices/0001:20:00.0/reset", 0o600)
	n.link("proc/self/ns/pid", "pid:[4026531836]")
	refused([]GPU{{UUID: "GPU-a", PCIBusID: "0000:10:00.0", Minor: -1}}, "GPU GPU-a, but its device nodes are not known")
	n.link("proc/12/fd/4", "/dev/nvidia1")
	refused(pair, "processes have /dev/nvidia0, /dev/nvidia1 open: 12")
	if done, err := m.Reset(t.Context(), reset.NewRunner(), pair[:1]); err != nil || done != "PCI reset of 0000:10:00.0" {
		t.Errorf("done: %q, %v", done, err)
	}
}

// The settings choose the method.
func TestMethods(t *testing.T) {
	n := newNode(t)
	if _, err := n.means(Settings{Method: Never}, "").Reset(t.Context(), reset.NewRunner(), pair); !errors.Is(err, ErrNever) {
		t.Errorf("never: %v", err)
	}
	if _, err := n.means(Settings{Method: Tool}, n.dir).Reset(t.Context(), reset.NewRunner(), pair); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a tool that is not there: %v", err)
	}
}
