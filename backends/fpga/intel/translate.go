package intel

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Read finds the cards. Each function with a region is one; a function without a port, as most
// of an OFS card, has no regions.
func (d *Driver) Read() driver.Reading {
	found, err := d.inventory()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return driver.Reading{Unloaded: true}
	case err != nil:
		// The cards are unknown, which is not the same as no cards.
		return driver.Reading{Unstable: true, Problems: []driver.Problem{{Device: d.Name(), Err: err}}}
	}
	r := driver.Reading{Unstable: found.Unstable, Problems: found.Problems}
	for _, c := range found.Cards {
		r.Cards = append(r.Cards, card(c, found.EngineOf(c)))
	}
	return r
}

// card returns a card in the backend's terms; the engine is its own, that of its physical
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

// manager returns where the engine of a card is.
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
	// A port without a name by the interface, as in a virtual machine, has its region's.
	if name, err := c.AFName(p); err == nil {
		to.Loaded = strings.TrimPrefix(name, Domain+"/")
	}
	return to
}

// unprogrammable returns why nothing can be put into a port; empty if something can.
func unprogrammable(c Card, p Port, engine *Engine) string {
	switch {
	case engine == nil && c.Physical != nil:
		return fmt.Sprintf("it is a virtual function, and the management engine of its physical one, %s, is not there", c.Physical)
	case engine == nil:
		return "there is no management engine by which it is programmed, as in a virtual machine: program it from the host"
	case c.Interface == "":
		return "the kernel does not report its interface ID, so it is not known what fits"
	case engine.Ports > 0 && p.Number >= engine.Ports:
		return fmt.Sprintf("the management engine reports %d ports, and this is port %d", engine.Ports, p.Number)
	}
	return ""
}

// firmwareAttributes are the attributes of versions, by file.
var firmwareAttributes = map[string]string{
	"bmc_version": "bmcVersion", "bmcfw_version": "bmcFirmwareVersion", "nios_fw_version": "niosFirmwareVersion",
}

// attributes returns what else is known of a card.
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
	if e.Socket != nil {
		all["socket"] = sdk.Int(int64(*e.Socket))
	}
	if e.Ports > 0 {
		all["ports"] = sdk.Int(int64(e.Ports))
	}
	if e.Manager != "" {
		all["managerState"] = sdk.String(e.Manager)
	}
	for file, version := range e.Firmware {
		all[firmwareAttributes[file]] = sdk.String(version)
	}
	return all
}
