package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// layout has the names of a driver's files.
type layout struct {
	family Family
	// driver is the kernel driver of the PCI functions.
	driver       string
	engine, port string
	fme          []string // error registers of the engine
}

var layouts = map[string]layout{
	"fpga_region": {DFL, "dfl-pci", "dfl-fme.", "dfl-port.", []string{
		"catfatal_errors", "nonfatal_errors", "fme_errors", "pcie0_errors", "pcie1_errors", "first_error", "next_error",
	}},
	"fpga": {OPAE, "intel-fpga-pci", "intel-fpga-fme.", "intel-fpga-port.", []string{
		"catfatal_errors", "nonfatal_errors", "fme-errors/errors", "pcie0_errors", "pcie1_errors", "fme-errors/first_error",
		"fme-errors/next_error",
	}},
}

// portRegisters are the error registers of a port.
var portRegisters = []string{"errors", "first_error", "first_malformed_req"}

// maxPort is the highest port number that is accepted: the hardware has at most 4 ports
// (MAX_DFL_FPGA_PORT_NUM in Linux's drivers/fpga/dfl.h), which leaves room.
const maxPort = 63

// card reads a function; it fails if the function cannot be identified, or its engine
// does not answer.
func (r *reader) card(at pci.Address, regions []member, chips []string) (Card, error) {
	if len(regions) > 1 {
		return Card{}, fmt.Errorf("it has the regions %s and %s, which could not be distinguished after a reload of the driver",
			regions[0].name, regions[1].name)
	}
	device, err := pci.ReadDevice(r.root, at)
	if err != nil {
		return Card{}, err
	}
	region := regions[0]
	lay := layouts[region.class]
	c := Card{ID: CardID(at), PCI: device, Family: lay.family, Region: region.name, Board: at}
	if c.Dir, err = filepath.Rel(r.root, region.dir); err != nil {
		return Card{}, err
	}
	c.Subsystem = r.subsystem(device)
	if c.Physical, err = r.physical(at); err != nil {
		return Card{}, err
	}
	if c.Physical != nil {
		c.Board = *c.Physical
	}
	c.Board.Function = 0
	engines, err := dirs(region.dir, lay.engine)
	if err != nil {
		return Card{}, err
	}
	if len(engines) > 1 {
		return Card{}, fmt.Errorf("it has %d management engines, want one at most", len(engines))
	}
	for _, dir := range engines {
		if c.Engine, err = r.engine(at.String(), dir, lay); err != nil {
			return Card{}, err
		}
		if c.Interface, err = r.interfaceID(dir, lay); err != nil {
			return Card{}, err
		}
	}
	ports, err := dirs(region.dir, lay.port)
	if err != nil {
		return Card{}, err
	}
	for _, dir := range ports {
		p, err := r.port(at, dir)
		if err != nil {
			r.problem(at.String()+" "+filepath.Base(dir), true, err)
			continue
		}
		c.Ports = append(c.Ports, p)
	}
	c.Ports = r.distinct(at, c.Ports)
	r.countPorts(c, len(ports))
	if c.Engine != nil {
		c.Engine.Firmware = r.versions(at.String(), region.dir, chips, c.Engine.Node.Name)
	}
	return c, nil
}

// countPorts reports ports that the management engine counts but that are missing: neither
// the function nor one of its virtual functions, which have one port each, has them.
func (r *reader) countPorts(c Card, shown int) {
	if c.Engine == nil || c.Engine.Ports <= shown {
		return
	}
	at := c.PCI.Address.String()
	virtual := int(r.number(at, math.MaxUint16, r.root, "bus", "pci", "devices", at, "sriov_numvfs"))
	if missing := c.Engine.Ports - shown - virtual; missing > 0 {
		r.problem(fmt.Sprintf("%s (ports: %d)", at, missing), true, fmt.Errorf(
			"ports_num is %d, but there are %d ports and %d virtual functions: see the kernel's log, or assign a port that was released to the function again",
			c.Engine.Ports, shown, virtual))
	}
}

// subsystem returns the ID of a function's subsystem, where nothing else distinguishes cards.
func (r *reader) subsystem(device pci.Device) uint16 {
	if device.Vendor != vendorIntel || device.ID != deviceDFL && device.ID != deviceDFLVF {
		return 0
	}
	at := device.Address.String()
	return uint16(r.number(at, math.MaxUint16, r.root, "bus", "pci", "devices", at, "subsystem_device"))
}

// physical returns the physical function of a virtual one; nil for another.
func (r *reader) physical(at pci.Address) (*pci.Address, error) {
	link := filepath.Join(r.root, "bus", "pci", "devices", at.String(), "physfn")
	to, err := os.Readlink(link)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pf, err := pci.ParseAddress(filepath.Base(to))
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", link, err)
	}
	return &pf, nil
}

// engine reads the management engine.
func (r *reader) engine(device, dir string, lay layout) (*Engine, error) {
	node, err := r.node(dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{Node: node}
	if e.BitstreamID = r.number(device, math.MaxUint64, dir, "bitstream_id"); e.BitstreamID == silent {
		return nil, fmt.Errorf("the card does not answer: %s is all f; it may need a reset of the PCI device or a power cycle",
			filepath.Join(dir, "bitstream_id"))
	}
	e.Metadata = r.number(device, math.MaxUint64, dir, "bitstream_metadata")
	e.Ports = int(r.number(device, maxPort+1, dir, "ports_num"))
	if socket, ok := r.reported(device, math.MaxUint16, dir, "socket_id"); ok {
		e.Socket = new(int(socket))
	}
	e.Registers = r.registers(device, filepath.Join(dir, "errors"), lay.fme)
	e.Manager = r.manager(device, dir)
	return e, nil
}

// manager returns the state of the engine's fpga_manager, which newer drivers have one
// directory deeper.
func (r *reader) manager(device, dir string) string {
	parents, _ := dirs(dir, "dfl-fme-mgr.")
	for _, parent := range append(parents, dir) {
		managers, _ := dirs(filepath.Join(parent, "fpga_manager"), "fpga")
		for _, m := range managers {
			if state := driver.Printable(r.optional(device, m, "state")); state != "" {
				return state
			}
		}
	}
	return ""
}

// interfaceID reads the ID that bitstreams must fit. All regions for programming of an engine
// have the same.
func (r *reader) interfaceID(dir string, lay layout) (string, error) {
	var files []string
	if lay.family == OPAE {
		files = []string{filepath.Join(dir, "pr", "interface_id")}
	} else {
		parents, err := dirs(dir, "dfl-fme-region.")
		if err != nil {
			return "", err
		}
		for _, parent := range parents {
			regions, err := dirs(filepath.Join(parent, "fpga_region"), "region")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			for _, region := range regions {
				files = append(files, filepath.Join(region, "compat_id"))
			}
		}
	}
	known := ""
	for _, file := range files {
		id, err := r.id(file)
		switch {
		case err != nil:
			return "", err
		case allOnes(id):
			return "", fmt.Errorf("the card does not answer: %s is all f; it may need a reset of the PCI device or a power cycle", file)
		case id != "" && known != "" && id != known:
			return "", fmt.Errorf("its regions have the interface IDs %s and %s, want one", known, id)
		case id != "":
			known = id
		}
	}
	return known, nil
}

// port reads a port; it fails if the port cannot be identified. A port in reset stays listed.
func (r *reader) port(at pci.Address, dir string) (Port, error) {
	node, err := r.node(dir)
	if err != nil {
		return Port{}, err
	}
	text, err := r.text(dir, "id")
	if err != nil {
		return Port{}, err
	}
	number, err := driver.ParseNumber(text)
	if err != nil || number > maxPort {
		return Port{}, fmt.Errorf("%s is %q, want a port's number, %d at most", filepath.Join(dir, "id"), driver.Printable(text), maxPort)
	}
	device := at.String() + " " + filepath.Base(dir)
	p := Port{ID: PortID(at, int(number)), Number: int(number), Node: node}
	if p.State, p.AFU, err = r.afu(dir); err != nil {
		return Port{}, err
	}
	p.PowerState = uint8(r.number(device, math.MaxUint8, dir, "power_state"))
	p.Registers = r.registers(device, filepath.Join(dir, "errors"), portRegisters)
	// The bus also returns all f for a card that was removed.
	if i := slices.IndexFunc(p.Registers, func(r Register) bool { return r.Low == silent }); i >= 0 && p.State == Unloaded {
		return Port{}, fmt.Errorf("the port does not answer: %s and %s are all f; the card may need a reset of the PCI device or a power cycle",
			filepath.Join(dir, "afu_id"), filepath.Join(r.root, p.Registers[i].File))
	}
	return p, nil
}

// afu reads the ID of the function that is loaded in a port. For a port in reset the driver
// returns EBUSY (afu_id_show in Linux's drivers/fpga/dfl-afu-main.c).
func (r *reader) afu(dir string) (State, string, error) {
	id, err := r.id(dir, "afu_id")
	switch {
	case errors.Is(err, unix.EBUSY):
		return Busy, "", nil
	case err != nil:
		return "", "", err
	case id == "":
		return Unreported, "", nil
	case allOnes(id):
		return Unloaded, "", nil
	}
	return Loaded, id, nil
}

// distinct returns the ports by number, without those that have one number.
func (r *reader) distinct(at pci.Address, ports []Port) []Port {
	count := map[int]int{}
	for _, p := range ports {
		count[p.Number]++
	}
	ports = slices.DeleteFunc(ports, func(p Port) bool {
		n := count[p.Number]
		if n > 1 {
			r.problem(at.String()+" "+p.Node.Name, true, fmt.Errorf("%d ports of the card have the number %d", n, p.Number))
		}
		return n > 1
	})
	slices.SortFunc(ports, func(a, b Port) int { return a.Number - b.Number })
	return ports
}
