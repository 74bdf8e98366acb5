package alveo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

func sortCards(cards []driver.Card) {
	slices.SortFunc(cards, func(a, b driver.Card) int { return cmp.Compare(a.ID, b.ID) })
}

// card returns a card in the terms that all drivers share. programs: there is a tool
// to program it by.
func (d *Driver) card(c Card, id identity, programs bool) driver.Card {
	card := driver.Card{
		ID: id.id, Board: id.board, OnBoard: id.fpgas, Model: ModelName(c.Board, c.Shell), Serial: c.Serial, Attributes: c.attributes(),
		Faults: c.faults(), Counts: c.counts(),
	}
	device := c.pci()
	card.PCI, card.Dir = &device, below(device.Address)
	if c.Management != nil {
		card.Management = []string{fmt.Sprintf("/dev/xclmgmt%d", c.Management.Instance)}
	}
	if c.User != nil {
		card.Regions = []driver.Region{c.region(id.id, programs)}
		d.notice(id.id, c.User.Shutdown)
	}
	if d.left(id.id) {
		for i := range card.Faults {
			if f := &card.Faults[i]; f.Code == CardShutdown {
				f.Recovery = sdk.RecoveryReset
				f.Text = fmt.Sprintf("a reset that did not come to its end has left the card shut down (%s is 1); the next one brings it back", c.Offline())
			}
		}
	}
	return card
}

// region returns what a container is given of a card: all of the user function.
func (c Card) region(card string, programs bool) driver.Region {
	u := c.User
	r := driver.Region{
		ID: RegionID(card), Kind: driver.Platform, Name: PlatformName(c.Shell), State: u.state(c.Offline()),
		Nodes: u.nodes(), Programmable: programs, Dir: u.Dir, Attributes: map[string]*sdk.Attribute{},
	}
	if len(c.Shell.Interfaces) > 0 {
		r.Interface = c.Shell.Interfaces[0].Hex()
	}
	if r.State == driver.Loaded {
		r.Function = u.Xclbins[0].String()
	}
	return r
}

// state returns what is known of what is loaded. An empty list is what the driver has for
// nothing.
func (u User) state(offline string) driver.State {
	switch {
	case offline != "":
		return driver.Busy
	case !u.Reported:
		return driver.Unreported
	case len(u.Xclbins) == 0:
		return driver.Unloaded
	}
	return driver.Loaded
}

// nodes returns the render nodes, and that of the streaming DMA engine, whose name has the
// function's address as a number of 32 bits (XOCL_DEV_ID in XRT's xocl_drv.h).
func (u User) nodes() []string {
	var all []string
	for _, name := range u.Render {
		all = append(all, "/dev/dri/"+name)
	}
	if u.QDMA {
		at := u.PCI.Address
		all = append(all, fmt.Sprintf("/dev/xfpga/dma.qdma.u%d.0",
			at.Domain<<16|uint32(at.Bus)<<8|uint32(at.Device)<<3|uint32(at.Function)))
	}
	return all
}

// attributes returns what is known of the card and its shell.
func (c Card) attributes() map[string]*sdk.Attribute {
	all := map[string]*sdk.Attribute{"virtualMachine": sdk.Bool(c.Management == nil)}
	text := func(name, value string) {
		if value != "" {
			all[name] = sdk.String(value)
		}
	}
	text("board", c.Board)
	if c.fpgas() > 0 {
		text("commonName", commonU30)
	}
	text("shell", c.Shell.VBNV)
	if c.Shell.Timestamp != 0 {
		all["shellTimestamp"] = sdk.Int(int64(min(c.Shell.Timestamp, 1<<62)))
	}
	if len(c.Shell.Logic) > 0 {
		text("logicID", join32(c.Shell.Logic[:1]))
	}
	return all
}

func join32(ids []bitstream.UUID) string {
	var all []string
	for _, id := range ids {
		all = append(all, id.Hex())
	}
	return strings.Join(all, ", ")
}

// Read lists the cards. A card keeps its ID for the life of the Driver, also while it does not
// report its serial number, as in reset; an unknown card is left out until it reports it, since
// its ID would change then. A card that has only the management function of the golden image is left out.
func (d *Driver) Read() driver.Reading {
	i := Read(d.host.Sysfs)
	reading := driver.Reading{Unstable: i.Unstable, Unloaded: i.Unloaded, Problems: i.Problems}
	_, err := d.tool().Find()
	for n, id := range d.identify(i) {
		c := i.Cards[n]
		if c.User == nil && c.Management.Golden != "" {
			id.err = errors.New(c.Management.golden())
		}
		if id.err != nil {
			reading.Problems = append(reading.Problems, driver.Problem{Device: c.At().String(), Lost: true, Err: id.err})
		} else {
			reading.Cards = append(reading.Cards, d.card(c, id, err == nil))
		}
	}
	sortCards(reading.Cards)
	return reading
}
