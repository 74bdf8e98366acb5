package alveo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/tool"
)

// Settings say how cards are programmed and reset. The zero value is good where XRT is
// installed beside this process.
type Settings struct {
	// Root is where this process sees the root of the node, or of the container, that
	// XRT's tools are installed in; "" is "/". The tool needs /dev, /sys and /proc there.
	Root string `json:"root"`
	// Tool is the path of xbutil or xrt-smi in Root; by default it is looked for where
	// XRT's packages put it.
	Tool string `json:"tool"`
}

// Check says what is wrong with settings: an [sdk.FieldErrors] whose paths begin with
// at; nil if nothing is.
func (s Settings) Check(at string) error {
	var errs sdk.FieldErrors
	if s.Root != "" && !filepath.IsAbs(s.Root) {
		errs.Add(at+".root", "%q must be an absolute path", s.Root)
	}
	if err := tool.CheckPath(s.Tool); err != nil {
		errs.Add(at+".tool", "%v", err)
	}
	return errs.Err()
}

// tools are where XRT's packages put the tool: xrt-smi is its name since 2024.2, and
// both are scripts that set up what the tool proper needs.
var tools = []string{"/opt/xilinx/xrt/bin/xrt-smi", "/opt/xilinx/xrt/bin/xbutil", "/usr/bin/xrt-smi", "/usr/bin/xbutil"}

// Driver is XRT's. It keeps which card is where, and nothing else: cards do not say
// their serial number while they are reset, and must not change their ID for it.
type Driver struct {
	host     sdk.HostPaths
	settings Settings
	// write writes to a file of sysfs, interval is how often it is looked whether a card is
	// back, and verified how long it may take to say what was loaded, after the tool has
	// ended; tests change them.
	write              func(path, text string) error
	interval, verified time.Duration

	mu sync.Mutex
	// places are the cards that were seen, by the address of the function that they are
	// known by; shared are serial numbers that two cards have had at once.
	places map[pci.Address]place
	shared map[string]bool
	// begun are the cards, by ID, that a reset of ours shuts down or has left so, and
	// whether they were seen shut down.
	begun map[string]bool
}

// place is the card that was last seen at an address.
type place struct {
	// vendor and device are its PCI IDs, by which another card at its place is noticed
	// that does not say its serial number.
	vendor, device uint16
	serial, id     string
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver on a host, with settings that were checked.
func New(host sdk.HostPaths, s Settings) *Driver {
	return &Driver{
		host: host, settings: s, write: write, interval: interval, verified: verified,
		places: map[pci.Address]place{}, shared: map[string]bool{}, begun: map[string]bool{},
	}
}

// Name is that of XRT.
func (d *Driver) Name() string { return "xrt" }

// Read says what there is. A card keeps its ID for the life of the Driver, also while it
// does not say its serial number, as in reset; a card that was never seen otherwise is
// left out until it says who it is, since it would change its ID then.
func (d *Driver) Read() driver.Reading {
	i := Read(d.host.Sysfs)
	reading := driver.Reading{Unsettled: i.Unsettled, Absent: i.Absent}
	for _, p := range i.Problems {
		reading.Problems = append(reading.Problems, driver.Problem(p))
	}
	_, err := d.tool().Find()
	for n, id := range d.identify(i) {
		if c := i.Cards[n]; id.err != nil {
			reading.Problems = append(reading.Problems, driver.Problem{Device: c.At().String(), Lost: true, Err: id.err})
		} else {
			reading.Cards = append(reading.Cards, d.card(c, id, err == nil))
		}
	}
	sortCards(reading.Cards)
	return reading
}

// identity is which card one is.
type identity struct {
	id, board string
	err       error
}

var errUnknown = errors.New("it cannot be told which card it is: it is in reset or not ready, and has not said its serial number " +
	"since this program runs; it is listed once it is back")

// identify says which cards they are, and remembers it. Of a machine that did not stand
// still nothing is remembered: a card may be read without what it is known by.
func (d *Driver) identify(i Inventory) []identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]bool{}
	for _, c := range i.Cards {
		if c.Serial != "" && seen[c.Serial] && !i.Unsettled {
			d.shared[c.Serial] = true
		}
		seen[c.Serial] = true
	}
	all := make([]identity, len(i.Cards))
	for n, c := range i.Cards {
		all[n] = d.identity(c, !i.Unsettled)
	}
	return all
}

// identity is which card one is. An ID that was given stays: a card whose controller
// takes a while to say its serial number keeps the one of its place.
func (d *Driver) identity(c Card, settled bool) identity {
	device := c.pci()
	at := device.Address
	was, known := d.places[at]
	known = known && was.vendor == device.Vendor && was.device == device.ID
	is := place{vendor: device.Vendor, device: device.ID, serial: c.Serial}
	switch {
	case known && (c.Serial == "" || was.serial == "" || c.Serial == was.serial) && !d.shared[c.Serial]:
		is.id = was.id
		is.serial = cmp.Or(c.Serial, was.serial)
	case c.Serial != "" && d.shared[c.Serial], c.Serial == "" && settled && c.settled():
		is.id = PlaceID(at)
	case c.Serial != "":
		is.id = SerialID(c.Serial)
	default:
		if c.Unread != nil {
			return identity{err: fmt.Errorf("it cannot be told which card it is: %w", c.Unread)}
		}
		return identity{err: errUnknown}
	}
	if settled {
		d.places[at] = is
	}
	board := is.id
	if is.serial != "" {
		board = SerialID(is.serial)
	}
	return identity{id: is.id, board: board}
}

// settled reports whether a card that has said no serial number has none: it could have
// said one. A management function has a controller once it is up.
func (c Card) settled() bool {
	if c.Unread != nil || c.Offline() != "" {
		return false
	}
	if c.User == nil {
		return c.Management.Ready
	}
	return c.User.Ready
}

// tool is XRT's.
func (d *Driver) tool() tool.Tool {
	paths := tools
	if d.settings.Tool != "" {
		paths = []string{d.settings.Tool}
	}
	return tool.Tool{Name: filepath.Base(paths[0]), Root: d.settings.Root, Paths: paths, Setting: "xrt.tool"}
}

// write writes to a file of sysfs.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// again reads a card anew; it fails if it is not there any more, or is another one.
func (d *Driver) again(c driver.Card) (Card, error) {
	i := Read(d.host.Sysfs)
	for n, id := range d.identify(i) {
		if id.err == nil && id.id == c.ID {
			return i.Cards[n], nil
		}
	}
	for _, p := range i.Problems {
		if p.Lost && below(p.at()) == c.Dir {
			return Card{}, fmt.Errorf("card %s at %s: %w", c.ID, p.Device, p.Err)
		}
	}
	return Card{}, fmt.Errorf("card %s is not there any more (it was at %s)", c.ID, filepath.Base(c.Dir))
}

// at is the address of a problem's function; that of no function if it has none.
func (p Problem) at() pci.Address {
	at, err := pci.ParseAddress(p.Device)
	if err != nil {
		return pci.Address{}
	}
	return at
}

// wait returns when done says so, or with the error of ctx.
func (d *Driver) wait(ctx context.Context, done func() bool) error {
	t := time.NewTicker(d.interval)
	defer t.Stop()
	for !done() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

const (
	// interval is short against resets, which take seconds.
	interval = 200 * time.Millisecond
	// verified is long against the driver, which says at once what was loaded.
	verified = 5 * time.Second
)
