package nvidia

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/manifests"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/sysroot"
)

// assertCharDevice is the container toolkit's check for a device node. Tests replace
// it, since only root can make nodes.
//
//go:linkname assertCharDevice github.com/NVIDIA/nvidia-container-toolkit/internal/devices.assertCharDeviceStub
var assertCharDevice func(string) error

// companionArgs makes the test binary run the MPS companion with these arguments, one a line.
const companionArgs = "NVIDIA_TEST_COMPANION"

func TestMain(m *testing.M) {
	if args := os.Getenv(companionArgs); args != "" {
		os.Exit(mps.Main(strings.Split(args, "\n")))
	}
	assertCharDevice = func(path string) error {
		_, err := os.Stat(path)
		return err
	}
	goleak.VerifyTestMain(m)
}

// rig is the backend with its gRPC service, on a simulated node.
type rig struct {
	*sdk.Server
	*sdktest.Watched
	backend *Backend
	t       *testing.T
	lib     *drivertest.Library
	files   sysroot.Files
	kernel  *ueventtest.Kernel
}

// newRig returns a backend on a node with the GPUs of lib, not yet configured.
func newRig(t *testing.T, lib *drivertest.Library, gpus int) *rig {
	t.Helper()
	r := &rig{t: t, lib: lib, files: sysroot.NewFiles(t), kernel: &ueventtest.Kernel{}}
	for _, node := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"} {
		r.file("", "dev", node)
	}
	for i := range gpus {
		r.file("", "dev", fmt.Sprintf("nvidia%d", i))
	}
	r.link("pid:[4026531836]", "proc", "self", "ns", "pid") // the host's PID namespace
	r.backend = newBackend(slog.New(slog.DiscardHandler), seams{exit: func(int) {}, uevents: r.kernel.Listen, open: func(o driver.Options) *driver.Driver {
		o.Load, o.Library, o.Timeout = lib.Load, "libnvidia-ml.so.1", 2*time.Second
		return driver.New(o)
	}})
	var err error
	if r.Server, err = sdk.NewServer(r.backend, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// start returns a new rig that is configured and watched.
func start(t *testing.T, lib *drivertest.Library, gpus int, settings string) *rig {
	t.Helper()
	r := newRig(t, lib, gpus)
	r.configure(settings)
	r.watch()
	return r
}

// watch watches the backend until the test ends.
func (r *rig) watch() {
	r.t.Helper()
	c := r.backend.conn
	r.t.Cleanup(func() {
		// A process would end here; the next test must not run beside releases of this one.
		c.scanning.Lock()   // a scan that had begun may add releases
		c.scanning.Unlock() //nolint:staticcheck // it only waits
		c.releases.Wait()
	})
	r.Watched = sdktest.Watch(r.t, r.Server, 200*time.Millisecond, patience.Long)
	r.Check = manifests.Declared(r.t, manifests.Load(r.t, "manifest.yaml"), "{}")
}

// path returns a path in one of the host's trees.
func (r *rig) path(parts ...string) string { return r.files.Path(filepath.Join(parts...)) }

func (r *rig) file(text string, parts ...string) {
	r.t.Helper()
	r.files.File(filepath.Join(parts...), text)
}

func (r *rig) link(to string, parts ...string) {
	r.t.Helper()
	r.files.Link(filepath.Join(parts...), to)
}

// bus returns the PCI bus ID of the GPU with an index.
func bus(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x10*(i+1)) }

// plug puts a GPU of the library on the PCI bus, with NVIDIA's driver.
func (r *rig) plug(i int) {
	r.t.Helper()
	r.files.PCI("sys", bus(i), "nvidia", map[string]string{"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "numa_node": "0"})
}

// configure applies settings for the mode "runtime", which needs none of the driver's
// files.
func (r *rig) configure(settings string) {
	r.t.Helper()
	if settings == "" {
		settings = `{"edits": {"mode": "runtime"}, "rescan": "1s"}`
	}
	if res, err := r.Configure(r.t.Context(), r.request(settings)); err != nil || len(res.GetErrors()) > 0 {
		r.t.Fatalf("Configure(%s): %v, %v", settings, res, err)
	}
}

func (r *rig) request(settings string) *backendv1.ConfigureRequest {
	return &backendv1.ConfigureRequest{
		SettingsJson: []byte(settings),
		Paths:        &backendv1.HostPaths{Sysfs: r.path("sys"), Devfs: r.path("dev"), Procfs: r.path("proc")},
	}
}

// healthAt returns the health of the device at an index of an inventory, or nil.
func healthAt(i int, inv *backendv1.Inventory) *backendv1.Health {
	if i >= len(inv.GetDevices()) {
		return nil
	}
	return inv.GetDevices()[i].GetHealth()
}

// healthy reports whether there are n devices, all healthy.
func healthy(n int) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		for i := range inv.GetDevices() {
			if healthAt(i, inv).GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
				return false
			}
		}
		return len(inv.GetDevices()) == n
	}
}

// onlyBad reports whether the device at an index has a fault, and no other device.
func onlyBad(n, bad int, code string) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		for i := range inv.GetDevices() {
			unhealthy := healthAt(i, inv).GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY
			if unhealthy != (i == bad) {
				return false
			}
		}
		return len(inv.GetDevices()) == n && healthAt(bad, inv).GetCode() == code
	}
}

// scan scans the GPUs, and returns the result for all devices.
func (r *rig) scan(ids ...string) engine.Seen {
	r.t.Helper()
	seen, err := r.backend.Scan(r.t.Context(), false, ids...)
	if err != nil {
		r.t.Error(err)
	}
	return seen
}

// reopen closes the driver, as a reset does, calls change, and lets it be opened again. No scan may
// be due: closing waits for a clock, which stands still in a bubble while a scan waits for the lock.
func (r *rig) reopen(change func()) {
	r.t.Helper()
	c := r.backend.conn
	c.scanning.Lock()
	if err := c.Close(r.t.Context()); err != nil {
		r.t.Error(err)
	}
	change()
	c.scanning.Unlock()
	if err := r.backend.Do(r.t.Context(), engine.Known.ScanNow); err != nil {
		r.t.Error(err)
	}
}

// await waits for a condition that no inventory shows, and receives the stream's events meanwhile.
func (r *rig) await(what string, done func() bool) {
	r.t.Helper()
	late := time.After(patience.Long)
	for !done() {
		select {
		case <-r.Events: // a heartbeat, if nothing else
		case <-late:
			r.t.Fatalf("waited %s until %s", patience.Long, what)
		}
	}
}
