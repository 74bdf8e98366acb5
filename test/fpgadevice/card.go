package fpgadevice

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
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

// port is the function at which a port of an engine's card is: that of the engine, or a
// virtual one of it.
func (d *Device) port(engine place, number int) (pci.Address, bool) {
	functions := []pci.Address{engine.at}
	links, _ := filepath.Glob(filepath.Join(d.tree.Sysfs(), "bus/pci/devices", engine.at.String(), "virtfn*"))
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil {
			continue
		}
		if at, err := pci.ParseAddress(filepath.Base(to)); err == nil {
			functions = append(functions, at)
		}
	}
	for _, at := range functions {
		if _, err := d.tree.Find(at, "port"+strconv.Itoa(number)); err == nil {
			return at, true
		}
	}
	return pci.Address{}, false
}

// interfaceID is what bitstreams must fit; empty if the kernel does not say.
func (d *Device) interfaceID(engine place) string {
	files := []string{"pr/interface_id"}
	if !engine.opae {
		all, _ := filepath.Glob(filepath.Join(d.tree.Root, engine.dir, "dfl-fme-region.*/fpga_region/region*/compat_id"))
		files = nil
		for _, file := range all {
			if rest, err := filepath.Rel(filepath.Join(d.tree.Root, engine.dir), file); err == nil {
				files = append(files, rest)
			}
		}
	}
	for _, file := range files {
		if id := d.read(engine, file); id != "" {
			return strings.ToLower(id)
		}
	}
	return ""
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

// report has the engine's fpga_manager say how a programming went, as fpga-mgr.c and
// dfl-fme-mgr.c do.
func (d *Device) report(engine place, state string, faults uint64) {
	for _, dir := range []string{"dfl-fme-mgr.*/fpga_manager/fpga*", "fpga_manager/fpga*"} {
		managers, _ := filepath.Glob(filepath.Join(d.tree.Root, engine.dir, dir))
		for _, m := range managers {
			for file, text := range map[string]string{"state": state + "\n", "status": status(faults)} {
				name, err := filepath.Rel(d.tree.Root, filepath.Join(m, file))
				if err != nil {
					continue
				}
				if _, err := os.Lstat(filepath.Join(m, file)); err == nil {
					// The card may go meanwhile; then nobody asks.
					_ = d.tree.SetFile(name, text)
				}
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

// unplug takes the card of an engine away.
func (d *Device) unplug(engine place) error {
	for i, c := range d.tree.Machine().Cards {
		if c.Address == engine.at {
			return d.tree.Unplug(i)
		}
	}
	return fmt.Errorf("no card is at %s", engine.at)
}
