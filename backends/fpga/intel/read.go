package intel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// read finds the cards of the reader's family. It is fs.ErrNotExist if no such
// driver is loaded. A test changes the tree between the parts of a pass.
func read(r reader, between func()) (Inventory, error) {
	var cards []Card
	unstable, err := driver.ReadStable(r.list, func(members []member) {
		r.problems = nil
		cards = r.cards(members)
		for _, m := range members {
			if m.err != nil {
				r.problem(m.name, true, m.err)
			}
		}
	}, func(a, b member) bool { return a == b }, between)
	if errors.Is(err, fs.ErrNotExist) {
		r.problems = nil
		if r.unlisted(nil); len(r.problems) > 0 {
			err = nil // the driver is loaded, and its class is missing
		}
	}
	if err != nil {
		return Inventory{}, err
	}
	slices.SortStableFunc(r.problems, func(a, b driver.Problem) int { return cmp.Compare(a.Device, b.Device) })
	return Inventory{Cards: cards, Problems: r.problems, Unstable: unstable}, nil
}

// classes are the kernel's classes that are read, and the beginning of the names in
// them.
var classes = []struct{ name, prefix string }{
	{"fpga_region", "region"}, {"fpga", "intel-fpga-dev."}, {hwmon, hwmon},
}

// hwmon is the class of sensors.
const hwmon = "hwmon"

// list lists the classes, in an order that does not change.
func (r *reader) list() ([]member, error) {
	var all []member
	var missing []string
	found := false
	for _, class := range classes {
		if lay, ok := layouts[class.name]; ok && !r.wants(lay.family) {
			continue
		}
		dir := filepath.Join(r.root, "class", class.name)
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if class.name != hwmon {
				missing = append(missing, dir)
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", class.name, err)
		}
		found = found || class.name != hwmon
		for _, e := range entries {
			if !isNumbered(e.Name(), class.prefix) {
				continue
			}
			m := member{class: class.name, name: e.Name()}
			link := filepath.Join(dir, e.Name())
			// A link of the kernel leads directly to the device: no need to check each directory
			// above it.
			to, err := os.Readlink(link)
			switch m.dir = filepath.Join(dir, to); {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				m.err = errNoLink
			case !strings.HasPrefix(m.dir, filepath.Join(r.root, "devices")+"/"):
				m.err = errElsewhere
			}
			all = append(all, m)
		}
	}
	if !found {
		return nil, fmt.Errorf("there is no FPGA driver: no %s: %w", strings.Join(missing, " and no "), fs.ErrNotExist)
	}
	return all, nil
}

var (
	errNoLink    = errors.New("it is no link in its class, as the kernel makes for each device")
	errElsewhere = errors.New("its link in its class leads to no device")
)

// cards reads the regions of PCI functions, and pairs them.
func (r *reader) cards(members []member) []Card {
	at := map[pci.Address][]member{}
	var chips []string
	for _, m := range members {
		switch {
		case m.err != nil:
		case m.class == hwmon:
			chips = append(chips, m.dir)
		default:
			// A region in an engine is for programming, and comes with its card; one of a
			// device tree has no PCI address.
			function, err := pci.ParseAddress(filepath.Base(filepath.Dir(filepath.Dir(m.dir))))
			if err == nil && filepath.Base(filepath.Dir(m.dir)) == m.class && !r.foreign(function) {
				at[function] = append(at[function], m)
			}
		}
	}
	r.unlisted(at)
	var cards []Card
	lost := map[pci.Address]error{}
	for function, regions := range at {
		c, err := r.card(function, regions, chips)
		if err != nil {
			lost[function] = err
			r.problem(function.String(), true, err)
			continue
		}
		cards = append(cards, c)
	}
	slices.SortFunc(cards, func(a, b Card) int { return a.PCI.Address.Compare(b.PCI.Address) })
	return r.pair(cards, lost)
}

// unlisted reports functions that have a driver, or files of one, but no region in the driver's class.
func (r *reader) unlisted(listed map[pci.Address][]member) {
	devices, _ := pci.OfClass(r.root, pci.ProcessingAccelerator) // those that can be read
	for _, d := range devices {
		for class, lay := range layouts {
			if len(listed[d.Address]) > 0 || !r.wants(lay.family) {
				continue
			}
			// Captures have no links to drivers, only the files that the drivers create.
			_, err := os.Lstat(filepath.Join(r.root, "bus", "pci", "devices", d.Address.String(), class))
			state := "the driver %s is bound to it, but"
			switch {
			case d.Driver == lay.driver:
			case d.Driver == "" && err == nil:
				state = "it has files of the driver %s, but no driver is bound to it, and"
			default:
				continue
			}
			r.problem(d.Address.String(), true, fmt.Errorf(state+" %s has no entry of it: see the kernel's log, or bind the driver again",
				lay.driver, filepath.Join(r.root, "class", class)))
		}
	}
}

// wants reports whether cards under a family's driver are read.
func (r *reader) wants(f Family) bool { return r.family == "" || r.family == f }

// foreign reports whether a function is under another driver, which has regions of its
// own that are no DFL.
func (r *reader) foreign(at pci.Address) bool {
	to, err := os.Readlink(filepath.Join(r.root, "bus", "pci", "devices", at.String(), "driver"))
	if err != nil {
		return false // captures have no such link
	}
	name := filepath.Base(to)
	return name != "dfl-pci" && name != "intel-fpga-pci"
}

// pair gives virtual functions the interface of their physical one. One whose physical function
// does not answer is left out: its interface is unknown, and it would be listed under another
// name.
func (r *reader) pair(cards []Card, lost map[pci.Address]error) []Card {
	interfaces := map[pci.Address]string{}
	for _, c := range cards {
		interfaces[c.PCI.Address] = c.Interface
	}
	var paired []Card
	for _, c := range cards {
		if c.Physical != nil {
			if err := lost[*c.Physical]; err != nil {
				r.problem(c.PCI.Address.String(), true, fmt.Errorf("its physical function %s is left out: %w", c.Physical, err))
				continue
			}
			if c.Engine == nil {
				c.Interface = interfaces[*c.Physical]
			}
		}
		paired = append(paired, c)
	}
	return paired
}
