package fpga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for, in the time of its bubble.
const patience = 5 * time.Minute

// IDs of accelerator functions and of an interface.
const (
	functionA = "d8424dc4a4a3c413f89e433683f9040b"
	functionB = "9aeffe5f84570612c000c9660d824272"
	fits      = "9346116da52d5ca8b06aa9a389ef7c8d"
)

// fake is a driver whose cards are as a test says.
type fake struct {
	t    *testing.T
	name string

	mu      sync.Mutex
	reading driver.Reading
	senses  map[string]driver.Senses
	// reads counts readings. A reading waits for hold to be closed, if there is one.
	reads int
	hold  chan struct{}
	// programmed and resets are the regions that were, in order.
	programmed, resets []string
	// program is called instead of the usual, without the lock, with what does the usual.
	program func(ctx context.Context, usual func() error) error
	reset   func(ctx context.Context) error
	misfit  error
	// visible has a region be busy, as looks see it, while it is programmed.
	visible bool
}

func (f *fake) Name() string { return f.name }

func (f *fake) Read() driver.Reading {
	f.mu.Lock()
	hold := f.hold
	f.reads++
	f.mu.Unlock()
	if hold != nil {
		<-hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.reading
	r.Cards = nil
	for _, c := range f.reading.Cards {
		c.Regions = slices.Clone(c.Regions)
		r.Cards = append(r.Cards, c)
	}
	r.Problems = slices.Clone(r.Problems)
	return r
}

func (f *fake) Sense(c driver.Card) driver.Senses {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.senses[c.ID]
}

func (f *fake) Fits(driver.Card, driver.Region, *bitstream.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.misfit
}

func (f *fake) Holds(r driver.Region, file *bitstream.File) bool {
	return file.Kind == bitstream.GBS && r.Function == file.Accelerators[0].ID.Hex()
}

func (f *fake) Program(ctx context.Context, c driver.Card, r driver.Region, file *bitstream.File) error {
	usual := func() error {
		f.change(func() {
			f.programmed = append(f.programmed, r.ID+" "+filepath.Base(file.Path))
			if at := f.region(c.ID, r.Number); file.Kind == bitstream.GBS {
				at.State, at.Function = driver.Loaded, file.Accelerators[0].ID.Hex()
				at.Loaded = "af-" + at.Function
			} else {
				at.State, at.Function, at.Loaded = driver.Untold, "", ""
			}
		})
		return nil
	}
	f.mu.Lock()
	program := f.program
	if f.visible {
		f.region(c.ID, r.Number).State = driver.Busy
	}
	f.mu.Unlock()
	if program != nil {
		return program(ctx, usual)
	}
	return usual()
}

func (f *fake) Reset(ctx context.Context, c driver.Card, r driver.Region) (string, error) {
	f.mu.Lock()
	reset := f.reset
	f.mu.Unlock()
	if reset != nil {
		if err := reset(ctx); err != nil {
			return "", err
		}
	}
	f.change(func() {
		f.resets = append(f.resets, r.ID)
		f.region(c.ID, r.Number).Faults = nil
		f.card(c.ID).Faults = nil
	})
	return "reset of " + r.ID, nil
}

// change changes the machine.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// card is the one with an ID; the caller holds the lock.
func (f *fake) card(id string) *driver.Card {
	for i := range f.reading.Cards {
		if f.reading.Cards[i].ID == id {
			return &f.reading.Cards[i]
		}
	}
	f.t.Errorf("no card %s", id)
	return &driver.Card{}
}

// region is one of a card; the caller holds the lock.
func (f *fake) region(card string, number int) *driver.Region {
	regions := f.card(card).Regions
	for i := range regions {
		if regions[i].Number == number {
			return &regions[i]
		}
	}
	f.t.Errorf("card %s has no region %d", card, number)
	return &driver.Region{}
}

// done are the regions that were programmed and reset until now.
func (f *fake) done() (programmed, resets []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.programmed), slices.Clone(f.resets)
}

// port is a region with a function.
func port(card string, number int, function string) driver.Region {
	r := driver.Region{
		ID: fmt.Sprintf("%s-port%d", card, number), Number: number, Interface: fits, Kind: driver.Port, State: driver.Unloaded,
		Name: "region-" + fits, Nodes: []string{fmt.Sprintf("/dev/%s.%d", card, number)}, Programmable: true,
	}
	if function != "" {
		r.State, r.Function, r.Loaded = driver.Loaded, function, "af-"+function
	}
	return r
}

// cardOf is a card with regions at a PCI address.
func cardOf(id string, bus uint8, regions ...driver.Region) driver.Card {
	return driver.Card{
		ID: id, Board: id, Model: "Test card", Management: []string{"/dev/" + id + "-fme"}, Regions: regions, Dir: "devices/" + id,
		PCI: &pci.Device{Address: pci.Address{Bus: bus}, NUMANode: 1, Driver: "dfl-pci"},
	}
}

// rig is the backend behind its service, on a machine of a test.
type rig struct {
	*sdk.Server
	t       *testing.T
	root    string
	fakes   []*fake
	backend *Backend
	kernel  *ueventtest.Kernel
	stream  chan *backendv1.WatchResponse
	last    *backendv1.Inventory // that was seen
	ended   chan error
	// revision is that of the settings.
	revision uint64
}

// run runs a test in a bubble with a driver "dfl" that has cards.
func run(t *testing.T, settings string, test func(r *rig, f *fake), cards ...driver.Card) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		f := &fake{t: t, name: "dfl", reading: driver.Reading{Cards: cards}, senses: map[string]driver.Senses{}}
		r := newRig(t, f)
		r.watch(settings)
		test(r, f)
	})
}

// newRig is a backend with drivers, not yet configured, with the nodes and the PCI
// functions of their cards.
func newRig(t *testing.T, fakes ...*fake) *rig {
	t.Helper()
	r := &rig{
		t: t, root: t.TempDir(), fakes: fakes, kernel: &ueventtest.Kernel{}, stream: make(chan *backendv1.WatchResponse),
		ended: make(chan error, 1),
	}
	for _, dir := range []string{"sys", "dev", "proc", "bitstreams"} {
		r.do(os.MkdirAll(filepath.Join(r.root, dir), 0o755))
	}
	for _, f := range fakes {
		for _, c := range f.reading.Cards {
			r.plug(c)
		}
	}
	r.backend = newBackend(slog.New(slog.DiscardHandler), seams{
		drivers: func(cfg *config) []driver.Driver {
			var all []driver.Driver
			for _, f := range fakes {
				if slices.Contains(cfg.Drivers, f.name) {
					all = append(all, f)
				}
			}
			return all
		},
		uevents: r.kernel.Listen,
	})
	return r
}

func (r *rig) function(c driver.Card) string {
	return filepath.Join(r.root, "sys/bus/pci/devices", c.PCI.Address.String())
}

// plug makes the PCI function and the nodes of a card.
func (r *rig) plug(c driver.Card) {
	r.t.Helper()
	if c.PCI != nil {
		r.bind(c, c.PCI.Driver)
	}
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
	dir := r.function(c)
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
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	go func() {
		r.ended <- r.Watch(&backendv1.WatchRequest{HeartbeatInterval: durationpb.New(10 * time.Second)}, sdktest.NewStream(ctx, r.stream))
	}()
	r.t.Cleanup(func() {
		cancel()
		<-r.ended // says that it was cancelled
		if err := r.Close(context.WithoutCancel(r.t.Context())); err != nil {
			r.t.Error(err)
		}
	})
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
	late := time.After(patience)
	for {
		select {
		case e := <-r.stream:
			if inv := e.GetInventory(); inv != nil {
				if r.last = inv; want(inv) {
					return inv
				}
			}
		case err := <-r.ended:
			r.ended <- err
			r.t.Fatalf("the stream ended while waiting for %s: %v", what, err)
		case <-late:
			r.t.Fatalf("waited %s for %s; last inventory: %v, problems %q", patience, what, summary(r.last), r.last.GetProblems())
		}
	}
}

// idle takes the stream's events for a time, and returns the inventories.
func (r *rig) idle(d time.Duration) []*backendv1.Inventory {
	return r.during(func() { <-time.After(d) })
}

// during takes the stream's events while f runs, and returns the inventories.
func (r *rig) during(f func()) []*backendv1.Inventory {
	r.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	var all []*backendv1.Inventory
	late := time.After(patience)
	for {
		select {
		case e := <-r.stream:
			if inv := e.GetInventory(); inv != nil {
				r.last = inv
				all = append(all, inv)
			}
		case <-done:
			return all
		case <-late:
			r.t.Fatalf("waited %s for what does not end", patience)
		}
	}
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

// gbs makes a bitstream with a function, or makes it anew.
func (r *rig) gbs(name, function string) {
	r.t.Helper()
	metadata := fmt.Sprintf(`{"version": 1, "afu-image": {"interface-uuid": %q, "accelerator-clusters": [{"name": "x", "total-contexts": 1, "accelerator-type-uuid": %q}]}}`,
		fits, function)
	length := string([]byte{byte(len(metadata)), byte(len(metadata) >> 8), 0, 0})
	r.file("XeonFPGA\xb7GBSv001"+length+metadata+"payload", r.root, "bitstreams", name)
}

// prepare readies devices for a container.
func (r *rig) prepare(file string, shared []string, devices ...string) error {
	r.t.Helper()
	var err error
	r.during(func() { err = r.prepareCall(r.t.Context(), file, shared, devices...) })
	return err
}

func (r *rig) prepareCall(ctx context.Context, file string, shared []string, devices ...string) error {
	req := &backendv1.PrepareRequest{DeviceIds: devices, Resource: "fpga.intel.com/x", SharedDeviceIds: shared}
	if file != "" {
		req.Parameters = map[string]string{bitstreamParameter: file}
	}
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	_, err := r.Prepare(ctx, req)
	return err
}

// says fails the test unless an error has all the words.
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

func summary(inv *backendv1.Inventory) map[string]string {
	all := map[string]string{}
	for _, d := range inv.GetDevices() {
		h := d.GetHealth()
		all[d.GetId()] = h.GetState().String() + " " + h.GetCode() + " " + h.GetMessage()
	}
	return all
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

// recovered reports whether there is evidence that a device is sound, and for no other.
func recovered(id string) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		for _, d := range inv.GetDevices() {
			if d.GetHealth().GetRecovered() != (d.GetId() == id) {
				return false
			}
		}
		return healthy(len(inv.GetDevices()))(inv)
	}
}

func text(d *backendv1.Device, attribute string) string {
	return d.GetAttributes()[attribute].GetStringValue()
}

// bubble runs a test in time of its own.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
