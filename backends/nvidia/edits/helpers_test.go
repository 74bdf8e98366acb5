package edits

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	_ "unsafe" // for go:linkname

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

const (
	version = "570.124.06"
	uuidA   = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"
	uuidB   = "GPU-77777777-d268-c3f3-1b07-005d5ae1dc3f"
	uuidMIG = "MIG-30d00c09-8a98-59b8-8c1a-1d64b4ec3ad2"
	uuidGfx = "MIG-40d00c09-8a98-59b8-8c1a-1d64b4ec3ad2"
)

// assertCharDevice is the toolkit's check for a device node. Tests replace it, since
// only root can make nodes.
//
//go:linkname assertCharDevice github.com/NVIDIA/nvidia-container-toolkit/internal/devices.assertCharDeviceStub
var assertCharDevice func(string) error

func TestMain(m *testing.M) {
	assertCharDevice = func(path string) error {
		_, err := os.Stat(path)
		return err
	}
	goleak.VerifyTestMain(m)
}

// host is the directory tree of a node.
type host struct {
	sysroot.Files
	t testing.TB
}

func (h host) file(text string, names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.File(name, text)
	}
}

func (h host) paths() sdk.HostPaths {
	return sdk.HostPaths{Sysfs: h.Path("sys"), Devfs: h.Path("dev"), Procfs: h.Path("proc")}
}

// newHost returns a node with two GPUs, the second in MIG mode, and a driver below
// root ("" for the host's root).
func newHost(t *testing.T, root string) host {
	h := host{sysroot.NewFiles(t), t}
	h.driver(root)
	h.file("", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-uvm-tools", "dev/nvidia-modeset",
		"dev/nvidia0", "dev/nvidia1", "dev/nvidia-caps/nvidia-cap3", "dev/nvidia-caps/nvidia-cap4")
	h.file("DeviceFileMinor: 3\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
		"proc/driver/nvidia/capabilities/gpu1/mig/gi2/access")
	h.file("DeviceFileMinor: 4\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
		"proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci0/access")
	h.file("Character devices:\n195 nvidia\n", "proc/devices")
	return h
}

func (h host) driver(root string) {
	lib := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	h.file("", filepath.Join(lib, "libcuda.so."+version), filepath.Join(lib, "libnvidia-ml.so."+version),
		filepath.Join(lib, "libnvidia-ptxjitcompiler.so."+version),
		filepath.Join(root, "lib/firmware/nvidia", version, "gsp_ga10x.bin"))
	h.Program(filepath.Join(root, "usr/bin/nvidia-smi"), "")
	h.file("", filepath.Join(root, "run/nvidia-persistenced/socket"))
}

func snapshot() *driver.Snapshot {
	return &driver.Snapshot{DriverVersion: version, GPUs: []driver.GPU{
		{Index: 0, UUID: uuidA, PCIBusID: "0000:65:00.0", Minor: 0},
		{Index: 1, UUID: uuidB, PCIBusID: "0000:66:00.0", Minor: 1, MIGEnabled: true, Instances: []driver.Instance{
			{UUID: uuidMIG, Profile: "1g.10gb", GPUInstance: 2},
			{UUID: uuidGfx, Profile: "1g.10gb+me.gfx", GPUInstance: 2},
		}},
	}}
}

func (h host) maker(s Settings) *Maker {
	h.t.Helper()
	m, err := New("edits", s, h.paths(), slog.New(slog.DiscardHandler))
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// cdi returns the settings for the host's driver below root, as a container of accelmux
// sees it.
func (h host) cdi(root string) Settings {
	return Settings{DriverRoot: "/" + root, DriverRootMount: filepath.Clean(h.Path(root))}
}

func nodePaths(e *sdk.Edits) (container, host []string) {
	for _, d := range e.GetDeviceNodes() {
		container = append(container, d.GetPath())
		if p := d.GetHostPath(); p != "" {
			host = append(host, p)
		} else {
			host = append(host, d.GetPath())
		}
	}
	return container, host
}
