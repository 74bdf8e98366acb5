package device

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/devicetree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is the backend behind its service, on a tree.
type rig struct {
	*sdk.Server
	*sdktest.Watched
	t      *testing.T
	tree   devicetree.Tree
	kernel *ueventtest.Kernel
	// revision is that of the settings.
	revision uint64
	// write writes files of the PCI bus.
	write func(path, text string) error
}

// run runs a test in time of its own, on the tree of a preset and more lines.
func run(t *testing.T, preset, lines, settings string, test func(r *rig)) {
	t.Helper()
	text := ""
	if preset != "" {
		b, err := os.ReadFile(filepath.Join("presets/testdata", preset+".tree"))
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, tree: devicetree.New(t, text+"\n"+lines), kernel: &ueventtest.Kernel{}}
		r.write = r.pciBus
		r.tree.Change(t, "proc/sys/kernel/random/boot_id: one")
		r.start(settings)
		test(r)
	})
}

// start starts the backend, also in the place of one that was killed.
func (r *rig) start(settings string) {
	r.t.Helper()
	b := newBackend(slog.New(slog.DiscardHandler), match.Finder{Node: devicetree.Node}, r.kernel.Listen)
	b.records, b.write = filepath.Join(r.tree.Root, "records"), func(path, text string) error { return r.write(path, text) }
	var err error
	if r.Server, err = sdk.NewServer(b, slog.New(slog.DiscardHandler)); err != nil {
		r.t.Fatal(err)
	}
	r.configure(settings)
	r.Watched = sdktest.Watch(r.t, r.Server, 10*time.Second, 10*time.Minute)
}

func (r *rig) configure(settings string) {
	r.t.Helper()
	host := r.tree.Host()
	r.revision++
	res, err := r.Configure(r.t.Context(), &backendv1.ConfigureRequest{
		SettingsJson: merged(r.t, settings), Revision: r.revision,
		Paths: &backendv1.HostPaths{Sysfs: host.Sysfs, Devfs: host.Devfs, Procfs: host.Procfs},
	})
	if err != nil || len(res.GetErrors()) > 0 {
		r.t.Fatalf("Configure(%s): %v, %v", settings, err, res.GetErrors())
	}
}

// change changes the tree, and sends an event of the kernel with properties as NAME=value.
func (r *rig) change(lines string, action uevent.Action, path, subsystem string, properties ...string) {
	r.t.Helper()
	r.tree.Change(r.t, lines)
	all := map[string]string{}
	for _, p := range properties {
		name, value, _ := strings.Cut(p, "=")
		all[name] = value
	}
	r.kernel.Send(action, path, subsystem, all)
}

// within changes the tree without an event, and a device must be as wanted after at most limit.
func (r *rig) within(limit time.Duration, lines, id, what string, want func(*backendv1.Device) bool) {
	r.t.Helper()
	changed := time.Now()
	r.tree.Change(r.t, lines)
	r.device(id, what, want)
	if took := time.Since(changed); took > limit {
		r.t.Errorf("%s: reported after %v", what, took)
	}
}

// device waits until a device is as wanted, or for nil until it is not listed.
func (r *rig) device(id, what string, want func(*backendv1.Device) bool) *backendv1.Device {
	r.t.Helper()
	var found *backendv1.Device
	is := func(inv *backendv1.Inventory) bool {
		found = nil
		for _, d := range inv.GetDevices() {
			if d.GetId() == id {
				found = d
			}
		}
		return found == nil && want == nil || found != nil && want != nil && want(found)
	}
	if r.Last == nil || !is(r.Last) {
		r.Until(id+" "+what, is)
	}
	return found
}

// hasFault is for device: it has a fault with a code whose message has the text.
func hasFault(code, text string) func(*backendv1.Device) bool {
	return func(d *backendv1.Device) bool {
		return d.GetHealth().GetCode() == code && strings.Contains(d.GetHealth().GetMessage(), text)
	}
}

func healthy(d *backendv1.Device) bool {
	return d.GetHealth().GetState() == backendv1.HealthState_HEALTH_STATE_HEALTHY
}

func recovered(d *backendv1.Device) bool { return healthy(d) && d.GetHealth().GetRecovered() }

// content returns a file of the tree.
func (r *rig) content(file string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.tree.Root, file))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
