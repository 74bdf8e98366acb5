package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// Driver is a kernel's driver of Intel cards as the backend has drivers: it reads cards,
// and programs and resets their ports. It can be used concurrently.
type Driver struct {
	host   sdk.HostPaths
	family Family
	open   ioctl.Opener
	// read and write are those of files of sysfs.
	read     func(path string, limit int) ([]byte, error)
	write    func(path, text string) error
	firmware firmwares
	lanes    lanes
}

// NewDriver is the driver of a family; open is [ioctl.Open], or what stands for the
// kernel in tests.
func NewDriver(host sdk.HostPaths, family Family, open ioctl.Opener) *Driver {
	return &Driver{host: host, family: family, open: open, read: sysfs.Read, write: writeRegister}
}

// requests is the kind of requests that the kernel's driver takes.
func (d *Driver) requests() ioctl.Family {
	if d.family == OPAE {
		return ioctl.OPAE
	}
	return ioctl.DFL
}

// Name is that of the family.
func (d *Driver) Name() string { return string(d.family) }

// Read finds the cards. Each function with a region is one; a function without a port,
// as most of an OFS card, has no regions to give.
func (d *Driver) Read() driver.Reading {
	found, err := d.inventory()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return driver.Reading{Absent: true}
	case err != nil:
		// Nobody knows what there is: that is not the same as nothing.
		return driver.Reading{Unsettled: true, Problems: []driver.Problem{{Device: d.Name(), Err: err}}}
	}
	r := driver.Reading{Unsettled: found.Unsettled}
	for _, c := range found.Cards {
		r.Cards = append(r.Cards, card(c, found.EngineOf(c)))
	}
	for _, p := range found.Problems {
		r.Problems = append(r.Problems, driver.Problem(p))
	}
	return r
}

// reader reads the files of the host.
func (d *Driver) reader() reader { return reader{root: filepath.Clean(d.host.Sysfs), file: d.read} }

// inventory is what the reader finds.
func (d *Driver) inventory() (Inventory, error) {
	r := d.reader()
	r.families, r.firmware = []Family{d.family}, &d.firmware
	found, err := read(r, func() {})
	if err == nil {
		d.firmware.forget(d.host.Sysfs, found.Cards)
	}
	return found, err
}

// card is a card in the backend's terms; the engine is its own, that of its physical
// function, or nil.
func card(c Card, engine *Engine) driver.Card {
	to := driver.Card{
		ID: c.ID, Board: CardID(c.Board), PCI: &c.PCI, Model: c.Model(), Virtual: c.Physical != nil,
		Attributes: attributes(c), Dir: c.Dir,
	}
	if engine != nil {
		to.Management = []string{devNode(engine.Node)}
		to.Faults = engineFaults(engine, manager(c))
	}
	if c.Engine != nil {
		to.Counts = raised(c.Engine.Registers, engineRules)
	}
	for _, p := range c.Ports {
		to.Regions = append(to.Regions, region(c, p, engine))
	}
	return to
}

// manager is where the engine of a card is.
func manager(c Card) string {
	if c.Engine == nil && c.Physical != nil {
		return c.Physical.String()
	}
	return c.PCI.Address.String()
}

func region(c Card, p Port, engine *Engine) driver.Region {
	to := driver.Region{
		ID: p.ID, Number: p.Number, Interface: c.Interface, Function: p.AFU, State: driver.State(p.State), Kind: driver.Port,
		Name: strings.TrimPrefix(c.RegionName(), Domain+"/"), Nodes: []string{devNode(p.Node)},
		Faults: portFaults(c, p), Counts: portCounts(p), Programmable: unprogrammable(c, p, engine) == "",
		Dir: path.Join(c.Dir, p.Node.Name),
	}
	// What has no name without the interface, as in a virtual machine, is known by its
	// region's.
	if name, err := c.AFName(p); err == nil {
		to.Loaded = strings.TrimPrefix(name, Domain+"/")
	}
	return to
}

// unprogrammable is why nothing can be put into a port; empty if something can.
func unprogrammable(c Card, p Port, engine *Engine) string {
	switch {
	case engine == nil && c.Physical != nil:
		return fmt.Sprintf("it is a virtual function, and the management engine of its physical one, %s, is not there", c.Physical)
	case engine == nil:
		return "there is no management engine by which it is programmed, as in a virtual machine: program it from the host"
	case c.Interface == "":
		return "the kernel does not say its interface ID, so nobody knows what fits"
	case engine.Ports > 0 && p.Number >= engine.Ports:
		return fmt.Sprintf("the management engine says that it has %d ports, and this is port %d", engine.Ports, p.Number)
	}
	return ""
}

// devNode is a node as containers see it.
func devNode(n Node) string { return "/dev/" + n.Name }

// firmwareAttributes are the attributes of versions, by file.
var firmwareAttributes = map[string]string{
	"bmc_version": "bmcVersion", "bmcfw_version": "bmcFirmwareVersion", "nios_fw_version": "niosFirmwareVersion",
}

// attributes are what else is known of a card.
func attributes(c Card) map[string]*sdk.Attribute {
	all := map[string]*sdk.Attribute{"deviceID": sdk.String(fmt.Sprintf("%04x", c.PCI.ID))}
	e := c.Engine
	if e == nil {
		return all
	}
	if e.BitstreamID != 0 {
		all["bitstreamID"] = sdk.String(fmt.Sprintf("0x%x", e.BitstreamID))
	}
	if e.Metadata != 0 {
		all["bitstreamMetadata"] = sdk.String(fmt.Sprintf("0x%x", e.Metadata))
	}
	all["socket"], all["ports"] = sdk.Int(int64(e.Socket)), sdk.Int(int64(e.Ports))
	if e.Manager != "" {
		all["managerState"] = sdk.String(e.Manager)
	}
	for file, version := range e.Firmware {
		all[firmwareAttributes[file]] = sdk.String(version)
	}
	return all
}
