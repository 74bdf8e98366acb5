package fpga

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/manifests"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for, in the time of its bubble.
const patience = 5 * time.Minute

// rig is the backend behind its service, on a machine of a test.
type rig struct {
	*sdk.Server
	*sdktest.Watched
	t       *testing.T
	root    string
	backend *Backend
	// revision is that of the settings.
	revision uint64
}

// run runs a test in time of its own with a driver "dfl" that has cards.
func run(t *testing.T, settings string, test func(r *rig, f *fake), cards ...driver.Card) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, reading: driver.Reading{Cards: cards}, senses: map[string]driver.Senses{}}
		r := newRig(t, f)
		r.watch(settings)
		test(r, f)
	})
}

// newRig returns a backend with a driver, not yet configured, with the nodes and the PCI
// functions of its cards.
func newRig(t *testing.T, f *fake) *rig {
	t.Helper()
	r := &rig{t: t, root: t.TempDir()}
	for _, dir := range []string{"sys", "dev", "proc", "bitstreams"} {
		r.do(os.MkdirAll(filepath.Join(r.root, dir), 0o755))
	}
	for _, c := range f.reading.Cards {
		r.plug(c)
	}
	r.start(func(*config) []driver.Driver { return []driver.Driver{f} })
	return r
}

// start makes the backend, without events of the kernel.
func (r *rig) start(drivers func(*config) []driver.Driver) {
	r.backend = newBackend(slog.New(slog.DiscardHandler), seams{drivers: drivers, uevents: (&ueventtest.Kernel{}).Listen})
}

// plug makes the PCI function and the nodes of a card.
func (r *rig) plug(c driver.Card) {
	r.t.Helper()
	r.bind(c, c.PCI.Driver)
	nodes := slices.Clone(c.Management)
	for _, region := range c.Regions {
		nodes = append(nodes, region.Nodes...)
	}
	for _, node := range nodes {
		r.file("", r.root, node)
	}
}

// bind gives the PCI function of a card to a driver; empty for none.
func (r *rig) bind(c driver.Card, driver string) {
	r.t.Helper()
	dir := filepath.Join(r.root, "sys/bus/pci/devices", c.PCI.Address.String())
	for name, text := range map[string]string{"vendor": "0x8086\n", "device": "0x0b30\n", "class": "0x120000\n"} {
		r.file(text, dir, name)
	}
	link := filepath.Join(dir, "driver")
	r.do(os.RemoveAll(link))
	if driver != "" {
		r.do(os.Symlink("../../drivers/"+driver, link))
	}
}

func (r *rig) watch(settings string) {
	r.t.Helper()
	var err error
	if r.Server, err = sdk.NewServer(r.backend, slog.New(slog.DiscardHandler)); err != nil {
		r.t.Fatal(err)
	}
	r.configure(settings)
	r.Watched = sdktest.Watch(r.t, r.Server, 10*time.Second, patience)
	r.Check = manifests.Declared(r.t, manifests.Load(r.t, "manifest.yaml"), "{}")
}

// configure sets settings, in which BITSTREAMS is the directory of bitstreams.
func (r *rig) configure(settings string) {
	r.t.Helper()
	r.revision++
	res, err := r.Configure(r.t.Context(), &backendv1.ConfigureRequest{
		SettingsJson: []byte(strings.ReplaceAll(settings, "BITSTREAMS", filepath.Join(r.root, "bitstreams"))), Revision: r.revision,
		Paths: &backendv1.HostPaths{
			Sysfs: filepath.Join(r.root, "sys"), Devfs: filepath.Join(r.root, "dev"), Procfs: filepath.Join(r.root, "proc"),
		},
	})
	if err != nil || len(res.GetErrors()) > 0 {
		r.t.Fatalf("Configure(%s): %v, %v", settings, err, res.GetErrors())
	}
}

// inventory waits for an inventory that is as wanted, and returns it.
func (r *rig) inventory(what string, want func(*backendv1.Inventory) bool) *backendv1.Inventory {
	r.t.Helper()
	return r.Until(what, want)
}

// idle takes the stream's events for a time, and returns the inventories.
func (r *rig) idle(d time.Duration) []*backendv1.Inventory {
	return r.During(func() { <-time.After(d) })
}

func (r *rig) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) file(text string, parts ...string) string {
	r.t.Helper()
	path := filepath.Join(parts...)
	r.do(os.MkdirAll(filepath.Dir(path), 0o755))
	next := path + ".next"
	r.do(os.WriteFile(next, []byte(text), 0o600))
	r.do(os.Rename(next, path))
	return path
}

// gbs creates or replaces a bitstream with a function.
func (r *rig) gbs(name, function string) {
	r.t.Helper()
	file := fpgadevice.Bitstream{Interface: fits, AFU: function, Payload: []byte("payload")}.GBS()
	r.file(string(file), r.root, "bitstreams", name)
}

// prepare readies devices for a container.
func (r *rig) prepare(file string, shared []string, devices ...string) error {
	r.t.Helper()
	var err error
	r.During(func() { err = r.prepareCall(r.t.Context(), file, shared, devices...) })
	return err
}

func (r *rig) prepareCall(ctx context.Context, file string, shared []string, devices ...string) error {
	req := &backendv1.PrepareRequest{Devices: sdktest.Held(shared, devices...), Resource: "fpga.intel.com/x"}
	if file != "" {
		req.ParametersJson, _ = json.Marshal(parameters{Bitstream: file})
	}
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	_, err := r.Prepare(ctx, req)
	return err
}

// says fails the test unless an error contains all the words.
func (r *rig) says(what string, err error, words ...string) {
	r.t.Helper()
	if err == nil {
		err = errors.New("no error")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			r.t.Errorf("%s: %v, want %q in it", what, err, word)
		}
	}
}

func device(inv *backendv1.Inventory, id string) *backendv1.Device {
	for _, d := range inv.GetDevices() {
		if d.GetId() == id {
			return d
		}
	}
	return nil
}

// healthy reports whether there are n devices, all healthy.
func healthy(n int) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == n && only("", "")(inv) }
}

// only reports whether a device, and no other, has a fault with a code.
func only(id, code string) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		seen := id == ""
		for _, d := range inv.GetDevices() {
			want := ""
			if d.GetId() == id {
				want, seen = code, true
			}
			if d.GetHealth().GetCode() != want || want == "" && d.GetHealth().GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
				return false
			}
		}
		return seen
	}
}

func text(d *backendv1.Device, attribute string) string {
	return d.GetAttributes()[attribute].GetStringValue()
}
