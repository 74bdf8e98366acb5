package alveo

import (
	"cmp"
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

// card is a card in the terms that all drivers share. Programs says that there is a tool
// to program it by.
func (d *Driver) card(c Card, id identity, programs bool) driver.Card {
	card := driver.Card{
		ID: id.id, Board: id.board, Model: ModelName(c.Board, c.Shell), Serial: c.Serial, Attributes: c.attributes(),
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

// region is what a container is given of a card: all of the user function.
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

// state is what is known of what is loaded. An empty list is what the driver has for
// nothing.
func (u User) state(offline string) driver.State {
	switch {
	case offline != "":
		return driver.Busy
	case !u.Told:
		return driver.Untold
	case len(u.Xclbins) == 0:
		return driver.Unloaded
	}
	return driver.Loaded
}

// nodes are the render nodes, and that of the streaming DMA engine, whose name has the
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

// attributes are what is known of the card and its shell.
func (c Card) attributes() map[string]*sdk.Attribute {
	all := map[string]*sdk.Attribute{"virtualMachine": sdk.Bool(c.Management == nil)}
	text := func(name, value string) {
		if value != "" {
			all[name] = sdk.String(value)
		}
	}
	text("board", c.Board)
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
