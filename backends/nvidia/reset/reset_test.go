package reset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pair = []GPU{{UUID: "GPU-a", PCIBusID: "0000:10:00.0", Minor: 0}, {UUID: "GPU-b", PCIBusID: "0001:20:00.0", Minor: 1}}

// node is a node of a test.
type node struct {
	t   *testing.T
	dir string
}

func newNode(t *testing.T) *node { return &node{t: t, dir: t.TempDir()} }

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) file(name, text string, mode os.FileMode) {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(n.path(name), []byte(text), mode); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) link(name, to string) {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Symlink(to, n.path(name)); err != nil {
		n.t.Fatal(err)
	}
}

// tool makes a script nvidia-smi, and the means to use it.
func (n *node) tool(script string) *Means {
	n.t.Helper()
	n.file("nvidia-smi", "#!/bin/sh\n"+script+"\n", 0o700)
	return n.means(Settings{Tool: n.path("nvidia-smi")}, "")
}

func (n *node) means(s Settings, root string) *Means {
	n.t.Helper()
	m, err := NewMeans("reset", s, root, sdk.HostPaths{Sysfs: n.path("sys"), Procfs: n.path("proc")})
	if err != nil {
		n.t.Fatal(err)
	}
	return m
}

// The tool gets all GPUs at once, and its output is returned.
func TestTool(t *testing.T) {
	n := newNode(t)
	m := n.tool(`echo "called with: $@"; env | grep -c NVIDIA; pwd`)
	t.Setenv("NVIDIA_VISIBLE_DEVICES", "void")
	done, err := m.Reset(t.Context(), reset.NewRunner(), pair)
	if want := "called with: --gpu-reset -i GPU-a,GPU-b 0 /"; err != nil || !strings.HasSuffix(done, want) {
		t.Errorf("done: %q, %v, want %q", done, err, want)
	}
}

// If the tool fails, the error has the end of its output.
func TestToolFails(t *testing.T) {
	n := newNode(t)
	m := n.tool(`yes "In use by another client" | head -n 100000; echo "the last word" >&2; exit 255`)
	done, err := m.Reset(t.Context(), reset.NewRunner(), pair)
	if err == nil || !strings.Contains(err.Error(), "exit status 255") || !strings.HasSuffix(err.Error(), "the last word") || len(err.Error()) > 1000 {
		t.Errorf("done: %q, %v", done, err)
	}
	n.file("nvidia-smi", "#!/no/such/shell\n", 0o700)
	if _, err := m.Reset(t.Context(), reset.NewRunner(), pair); err == nil || !strings.Contains(err.Error(), "could not be run") {
		t.Errorf("a tool that cannot be run: %v", err)
	}
}

// The tool is searched in the driver's root, and runs with that as its root directory.
func TestToolInDriverRoot(t *testing.T) {
	n := newNode(t)
	n.file("driver/usr/bin/nvidia-smi", "", 0o700)
	smi := n.means(Settings{}, n.path("driver")).smi()
	if path, err := smi.Find(); err != nil || path != "/usr/bin/nvidia-smi" || smi.Root != n.path("driver") {
		t.Fatalf("nvidia-smi is at %q in %s, %v", path, smi.Root, err)
	}
	smi = n.means(Settings{Tool: "/opt/smi"}, n.path("driver")).smi()
	if path, err := smi.Find(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nvidia-smi is at %q, %v, though settings have it elsewhere", path, err)
	}
}

// A call whose time is up returns at once and the tool is killed; the next reset waits
// for the tool's end.
func TestAbandoned(t *testing.T) {
	n := newNode(t)
	fifo := n.path("called")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	called, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = called.Close() }()
	m := n.tool("echo $$ > " + fifo + "; exec tail -f /dev/null")
	r := reset.NewRunner()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := m.Reset(ctx, r, pair)
		failed <- err
	}()
	line := make([]byte, 100)
	if _, err := called.Read(line); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("abandoned: %v", err)
	}
	// The next reset runs, so the one before has ended.
	if done, err := n.tool("echo next").Reset(t.Context(), r, pair); err != nil || !strings.HasSuffix(done, "next") {
		t.Errorf("the next one: %q, %v", done, err)
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
	n.file("sys/bus/pci/devices/0000:10:00.0/reset", "", 0o600)
	n.file("sys/bus/pci/devices/0001:20:00.0/reset", "", 0o600)
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
	for field, s := range map[string]Settings{"reset.method": {Method: "x"}, "reset.tool": {Tool: "a/b"}} {
		_, err := NewMeans("reset", s, "", sdk.HostPaths{})
		var errs sdk.FieldErrors
		if !errors.As(err, &errs) || errs[0].Field != field {
			t.Errorf("%v: %v, want a refusal of %s", s, err, field)
		}
	}
}
