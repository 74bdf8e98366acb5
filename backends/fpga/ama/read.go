package ama

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

const prefix = "ama_transcoder"

// Read implements [driver.Driver].
func (d *Driver) Read() driver.Reading { return d.read(func() {}) }

// read is Read; a test changes the machine between the list and the cards.
func (d *Driver) read(between func()) driver.Reading {
	var reading driver.Reading
	unstable, err := driver.ReadStable(d.names, func(names []string) { reading = d.cards(names) }, func(a, b string) bool { return a == b }, between)
	if err != nil {
		return driver.Reading{Problems: []driver.Problem{{Lost: true, Err: err}}}
	}
	reading.Unstable = unstable
	return reading
}

// names lists the driver's devices, in a fixed order. There are none without the class.
func (d *Driver) names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.sysfs, "class", "misc"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list devices of the class misc: %w", err)
	}
	var all []string
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), prefix); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			all = append(all, e.Name())
		}
	}
	return all, nil
}

// cards reads the devices. One that cannot be read is left out alone.
func (d *Driver) cards(names []string) driver.Reading {
	reading := driver.Reading{}
	if _, err := os.Stat(filepath.Join(d.sysfs, "bus/pci/drivers/transcoder")); err != nil && len(names) == 0 {
		reading.Unloaded = true
	}
	seen := map[string]string{}
	for _, name := range names {
		card, err := d.card(name)
		if err == nil && seen[card.ID] != "" {
			err = fmt.Errorf("it has the PCI address of %s", seen[card.ID])
		}
		if err != nil {
			reading.Problems = append(reading.Problems, driver.Problem{Device: name, Lost: true, Err: err})
			continue
		}
		seen[card.ID] = name
		reading.Cards = append(reading.Cards, card)
	}
	slices.SortFunc(reading.Cards, func(a, b driver.Card) int { return strings.Compare(a.ID, b.ID) })
	return reading
}

// card reads a device.
func (d *Driver) card(name string) (driver.Card, error) {
	dir := filepath.Join("class/misc", name)
	text, err := sysfs.Text(filepath.Join(d.sysfs, dir, "bus_id"))
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Card{}, fmt.Errorf("it has no file bus_id: its driver has not finished, or failed; see the kernel's log for transcoder: %w", err)
	}
	if err != nil {
		return driver.Card{}, err
	}
	at, err := pci.ParseAddress(text)
	if err != nil {
		return driver.Card{}, fmt.Errorf("%s: %w", filepath.Join(dir, "bus_id"), err)
	}
	device, err := pci.ReadDevice(d.sysfs, at)
	if err != nil {
		return driver.Card{}, err
	}
	if ModelOf(device) == "" {
		return driver.Card{}, fmt.Errorf("%s names the PCI function %s, which is a %04x:%04x and no MA35D",
			filepath.Join(dir, "bus_id"), at, device.Vendor, device.ID)
	}
	id := "ama-" + strings.NewReplacer(":", "-", ".", "-").Replace(at.String())
	card := driver.Card{
		ID: id, Board: id, PCI: &device, Model: "AMD Alveo MA35D", Virtual: device.ID == virtual, Dir: dir,
		Attributes: map[string]*sdk.Attribute{},
	}
	if err := d.describe(&card); err != nil {
		return driver.Card{}, err
	}
	if fault, err := d.fault(dir); err != nil {
		return driver.Card{}, err
	} else if fault != nil {
		card.Faults = append(card.Faults, *fault)
	}
	// While a physical function has virtual ones, the driver refuses work on it.
	if n, err := sysfs.Uint(filepath.Join(d.sysfs, "bus/pci/devices", at.String(), "sriov_numvfs")); err == nil && n > 0 {
		return card, nil
	}
	card.Regions = []driver.Region{{
		ID: id, Kind: driver.Platform, Name: Name, State: driver.Unreported, Nodes: []string{"/dev/" + name}, Dir: dir,
	}}
	return card, nil
}

// describe adds what device_info has: lines "Product serial number = XFL1…". A driver without
// the file describes nothing.
func (d *Driver) describe(card *driver.Card) error {
	text, err := sysfs.Text(filepath.Join(d.sysfs, card.Dir, "device_info"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		if !isName(value) {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "product serial number":
			card.Serial = value
		case "product name":
			card.Attributes["productName"] = sdk.String(value)
		}
	}
	return err
}

// fault reads hw_err: 0x0, or 0xdeaddead after an error that the chip does not survive
// (HW_ERR_FLAG in the driver's common.h).
func (d *Driver) fault(dir string) (*driver.Fault, error) {
	text, err := sysfs.Text(filepath.Join(d.sysfs, dir, "hw_err"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.Trim(strings.TrimPrefix(text, "0x"), "0") == "" {
		return nil, nil //nolint:nilnil // no fault
	}
	if err != nil {
		return nil, err
	}
	return &driver.Fault{
		Code: "hardware-error", Cause: "hw_err", Recovery: sdk.RecoverySelf,
		Text: fmt.Sprintf("the driver has seen a fatal error of the chip (%s is %s): load ama_transcoder again when no container uses its devices, or power-cycle the node",
			filepath.Join(dir, "hw_err"), sysfs.Quote(text)),
	}, nil
}

// maxName is the longest text of an attribute, in bytes.
const maxName = 64

// isName reports whether a text is a name or a number of printable ASCII characters.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
