package fpgadevice

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// place is where a node is in the tree.
type place struct {
	node   string // its name
	at     pci.Address
	dir    string // below the root
	opae   bool
	engine bool
}

// nodes are the names of nodes of both drivers.
var nodes = regexp.MustCompile(`^(dfl|intel-fpga)-(fme|port)\.[0-9]+$`)

// locate finds a node by its name; false if the card or its driver has gone.
func (d *Device) locate(name string) (place, bool) {
	p := place{node: name, opae: strings.HasPrefix(name, "intel-fpga-"), engine: strings.Contains(name, "-fme.")}
	if !nodes.MatchString(name) {
		return place{}, false
	}
	dirs, err := filepath.Glob(filepath.Join(d.tree.Sysfs(), "bus/pci/devices/*/fpga*/*", name))
	if err != nil || len(dirs) != 1 {
		return place{}, false
	}
	rest, err := filepath.Rel(filepath.Join(d.tree.Sysfs(), "bus/pci/devices"), dirs[0])
	if err != nil {
		return place{}, false
	}
	function, _, _ := strings.Cut(rest, "/")
	if p.at, err = pci.ParseAddress(function); err != nil {
		return place{}, false
	}
	p.dir = filepath.Join("sys/bus/pci/devices", rest)
	return p, true
}

// number is what a file of a node's directory says.
func (d *Device) number(p place, file string) (int, bool) {
	n, err := strconv.Atoi(d.read(p, file))
	return n, err == nil
}

// read is a file of a node's directory, empty if there is none.
func (d *Device) read(p place, file string) string {
	b, err := os.ReadFile(filepath.Join(d.tree.Root, p.dir, file))
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), "\x00\n ")
}

// load has a port say another AFU. A card that says none has no such file.
func (d *Device) load(at pci.Address, number int, afu string) error {
	dir, err := d.tree.Find(at, "port"+strconv.Itoa(number))
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(d.tree.Root, dir, "afu_id")); err != nil {
		return nil //nolint:nilerr // it says none
	}
	return d.tree.Program(at, number, afu)
}

// card is the card that a function is of, and its index.
func (d *Device) card(at pci.Address) (fpgatree.Card, int) {
	cards := d.tree.Machine().Cards
	i := slices.IndexFunc(cards, func(c fpgatree.Card) bool { return c.Address.Domain == at.Domain && c.Address.Bus == at.Bus })
	return cards[i], i
}

// report has the engine's fpga_manager say how a programming went, as fpga-mgr.c and
// dfl-fme-mgr.c do.
func (d *Device) report(engine place, state string, faults uint64) {
	for name, text := range map[string]string{"state": state + "\n", "status": status(faults)} {
		for _, dir := range []string{"dfl-fme-mgr.*/fpga_manager/fpga*", "fpga_manager/fpga*"} {
			files, _ := filepath.Glob(filepath.Join(d.tree.Root, engine.dir, dir, name))
			for _, file := range files {
				// The card may be removed meanwhile; then the file is not read.
				_ = d.tree.SetFile(strings.TrimPrefix(file, d.tree.Root+"/"), text)
			}
		}
	}
}

// status is how fpga-mgr.c writes errors.
func status(faults uint64) string {
	text := ""
	for i, line := range []string{
		"reconfig operation error", "reconfig CRC error", "reconfig incompatible image", "reconfig IP protocol error",
		"reconfig fifo overflow error",
	} {
		if faults&(1<<i) != 0 {
			text += line + "\n"
		}
	}
	return text
}
