package alveo

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
	"github.com/accelmux/accelmux/backends/sysfs"
)

// vendors have cards under XRT: Xilinx, Advantech, Amazon and Arista.
var vendors = []string{"0x10ee", "0x13fe", "0x1d0f", "0x3475"}

// drivers are the kernel drivers of the functions.
var drivers = []string{"xocl", "xclmgmt"}

// Read finds the cards. root is that of sysfs, usually /sys. A machine that changes meanwhile is
// read again, a few times at most. It can be called concurrently. Of the values behind the
// board's controller it reads only the serial number, which the drivers cache, and nothing that
// a read changes.
func Read(root string) Inventory {
	return read(root, sysfs.Read, func() {})
}

// read is Read; a test changes what files answer, and the tree between the parts of a
// pass.
func read(root string, file func(string, int) ([]byte, error), between func()) Inventory {
	r := reader{root: filepath.Clean(root), file: file}
	var i Inventory
	var err error
	i.Unstable, err = driver.ReadStable(r.list, func(functions []function) {
		r.problems = nil
		i.Cards = r.cards(functions)
	}, function.equal, between)
	if err != nil {
		r.problems = []driver.Problem{{Lost: true, Err: err}}
	}
	i.Unloaded = len(i.Cards) == 0 && len(r.problems) == 0 && !r.loaded()
	slices.SortStableFunc(r.problems, func(a, b driver.Problem) int { return cmp.Compare(a.Device, b.Device) })
	i.Problems = r.problems
	return i
}

// loaded reports whether one of the drivers is.
func (r *reader) loaded() bool {
	for _, name := range drivers {
		if _, err := os.Stat(filepath.Join(r.root, "bus/pci/drivers", name)); err == nil {
			return true
		}
	}
	return false
}

// list lists the functions, by address. A machine without PCI has none.
func (r *reader) list() ([]function, error) {
	entries, err := os.ReadDir(filepath.Join(r.root, "bus/pci/devices"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list PCI devices: %w", err)
	}
	var all []function
	for _, e := range entries {
		at, err := pci.ParseAddress(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(r.root, "bus/pci/devices", e.Name())
		if vendor, err := r.text(dir, "vendor"); err != nil || !slices.Contains(vendors, strings.ToLower(vendor)) {
			continue
		}
		f := function{at: at}
		entries, err := os.ReadDir(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			f.err = err
		}
		for _, e := range entries {
			f.names = append(f.names, e.Name())
		}
		if f.err == nil && !f.has("user_pf") && !f.has("mgmt_pf") {
			to, err := os.Readlink(filepath.Join(dir, "driver"))
			if err != nil || !slices.Contains(drivers, filepath.Base(to)) {
				continue
			}
			f.err = fmt.Errorf("the driver %s is bound to it, but it has neither user_pf nor mgmt_pf: see the kernel's log, or bind the driver again", filepath.Base(to))
		}
		for i, name := range []string{"shutdown", "dev_offline", "ready"} {
			f.states[i], _ = r.text(dir, name)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b function) int { return a.at.Compare(b.at) })
	return all, nil
}

// slot returns where a card is: an address without the function.
func slot(at pci.Address) pci.Address {
	at.Function = 0
	return at
}

// cards reads the functions, and pairs them. A slot with several user functions has a
// card for each; a management function whose user function is in a virtual machine is a
// card alone.
func (r *reader) cards(functions []function) []Card {
	managements := map[pci.Address]*Management{}
	var users []*User
	serials := map[pci.Address]*serial{}
	boards := map[pci.Address]string{}
	for _, f := range functions {
		name := f.at.String()
		if f.err == nil && f.has("user_pf") && f.has("mgmt_pf") {
			f.err = errors.New("it has both user_pf and mgmt_pf, and is one of them")
		}
		if f.err != nil {
			r.problem(name, true, f.err)
			continue
		}
		device, err := pci.ReadDevice(r.root, f.at)
		if err != nil {
			r.problem(name, true, err)
			continue
		}
		if f.has("user_pf") {
			u, err := r.user(f, device)
			if err != nil {
				r.problem(name, true, err)
				continue
			}
			users = append(users, u)
		} else {
			m, err := r.management(f, device)
			switch {
			case err == nil && managements[slot(f.at)] != nil:
				err = fmt.Errorf("its slot has another management function, %s", managements[slot(f.at)].PCI.Address)
				fallthrough
			case err != nil:
				r.problem(name, true, err)
				continue
			}
			managements[slot(f.at)] = m
		}
		s := r.serial(f)
		serials[f.at] = &s
		boards[f.at] = driver.Printable(r.optional(name, r.dir(f.at), "board_name"))
	}
	return join(users, managements, serials, boards)
}

func join(users []*User, managements map[pci.Address]*Management, serials map[pci.Address]*serial, boards map[pci.Address]string) []Card {
	var cards []Card
	paired := map[pci.Address]bool{}
	add := func(u *User, m *Management) {
		c := Card{User: u, Management: m}
		if m != nil {
			c.take(*serials[m.PCI.Address], boards[m.PCI.Address], m.Shell)
		}
		if u != nil {
			c.take(*serials[u.PCI.Address], boards[u.PCI.Address], u.Shell)
		}
		cards = append(cards, c)
	}
	for _, u := range users {
		at := slot(u.PCI.Address)
		paired[at] = true
		add(u, managements[at])
	}
	for at, m := range managements {
		if !paired[at] {
			add(nil, m)
		}
	}
	slices.SortFunc(cards, func(a, b Card) int { return a.At().Compare(b.At()) })
	return cards
}

// take stores what one of the functions reports: first of the management function, whose serial
// number is the controller's own, then of the user function, whose shell is what bitstreams must
// fit.
func (c *Card) take(s serial, board string, shell Shell) {
	if c.Serial == "" {
		c.Serial = s.text
	}
	c.Unread = cmp.Or(c.Unread, s.err)
	if c.Serial != "" {
		c.Unread = nil
	}
	c.Board = cmp.Or(c.Board, board)
	if shell.VBNV != "" {
		logic := c.Shell.Logic
		c.Shell = shell
		if len(c.Shell.Logic) == 0 {
			c.Shell.Logic = logic
		}
	}
}
