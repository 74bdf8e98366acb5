package alveo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Boards lists each board as one card with one region, so that a container gets all FPGAs of a
// board, such as the two of a U30. A board with one FPGA is listed as by [Driver].
//
//	Card fpga-<serial>
//	  └─ Region fpga-<serial>-user, with the nodes of all Parts
type Boards struct{ fpgas driver.Driver }

var _ driver.Driver = Boards{}

// NewBoards returns the boards of a driver that lists FPGAs.
func NewBoards(fpgas driver.Driver) Boards { return Boards{fpgas} }

// BoardIncomplete is the code of the fault of a board that lacks FPGAs.
const BoardIncomplete = "board-incomplete"

// Name implements [driver.Driver].
func (b Boards) Name() string { return b.fpgas.Name() }

// Read implements [driver.Driver].
func (b Boards) Read() driver.Reading {
	reading := b.fpgas.Read()
	parts := map[string][]driver.Card{}
	for _, card := range reading.Cards {
		parts[card.Board] = append(parts[card.Board], card)
	}
	var cards []driver.Card
	for board, all := range parts {
		cards = append(cards, whole(board, all)...)
	}
	sortCards(cards)
	reading.Cards = cards
	return reading
}

// whole returns the cards of a board as one. FPGAs with only the management function here, as
// for a virtual machine, stay apart: no container gets them.
func whole(board string, cards []driver.Card) []driver.Card {
	var all, parts []driver.Card
	for _, c := range cards {
		if len(c.Regions) > 0 {
			parts = append(parts, c)
		} else {
			all = append(all, c)
		}
	}
	if len(parts) == 0 || len(parts) == 1 && parts[0].OnBoard < 2 {
		return cards
	}
	card := parts[0]
	card.ID, card.Parts, card.Management, card.Faults, card.Counts = board, parts, nil, nil, nil
	region := card.Regions[0]
	region.ID, region.Nodes, region.Counts = RegionID(board), nil, nil
	for _, part := range parts {
		r := part.Regions[0]
		card.Management = append(card.Management, part.Management...)
		card.Faults = append(card.Faults, part.Faults...)
		for _, c := range append(slices.Clone(part.Counts), r.Counts...) {
			c.Label = named(part, c.Label)
			card.Counts = append(card.Counts, c)
		}
		region.Nodes = append(region.Nodes, r.Nodes...)
		region.Programmable = region.Programmable && r.Programmable
		region.State, region.Function = both(region, r)
		region.Name = cmp.Or(region.Name, r.Name)
	}
	if missing := card.OnBoard - len(parts); missing > 0 {
		card.Faults = append(card.Faults, driver.Fault{
			Code: BoardIncomplete, Recovery: sdk.RecoverySelf, Cause: "board", Text: fmt.Sprintf(
				"%d of the board's %d FPGAs are missing, or report no serial number: see lspci and the kernel's log for xocl, or list each FPGA (xrt.unit: fpga)",
				missing, card.OnBoard),
		})
	}
	card.Regions = []driver.Region{region}
	return append(all, card)
}

// named returns the name of a sensor or a register of one FPGA of a board.
func named(part driver.Card, name string) string {
	return strings.TrimSpace(part.PCI.Address.String() + " " + name)
}

// both returns the state of two regions that are listed as one, and the function that both have.
func both(a, b driver.Region) (driver.State, string) {
	switch {
	case a.State == driver.Busy || b.State == driver.Busy:
		return driver.Busy, ""
	case a.State == b.State && a.Function == b.Function:
		return a.State, a.Function
	case a.State == driver.Unloaded || b.State == driver.Unloaded:
		return driver.Unloaded, ""
	}
	return driver.Unreported, ""
}

// partsOf returns the FPGAs that a card of [Boards] is made of.
func partsOf(c driver.Card) []driver.Card {
	if len(c.Parts) > 0 {
		return c.Parts
	}
	return []driver.Card{c}
}

// Sense implements [driver.Driver].
func (b Boards) Sense(c driver.Card) driver.Senses {
	if len(c.Parts) == 0 {
		return b.fpgas.Sense(c)
	}
	var all driver.Senses
	for _, part := range c.Parts {
		senses := b.fpgas.Sense(part)
		for _, s := range senses.Sensors {
			s.Sensor = named(part, s.Sensor)
			all.Sensors = append(all.Sensors, s)
		}
		for _, s := range senses.Implausible {
			all.Implausible = append(all.Implausible, named(part, s))
		}
		all.Faults = append(all.Faults, senses.Faults...)
	}
	return all
}

// Fits implements [driver.Driver]: the file must fit each FPGA.
func (b Boards) Fits(c driver.Card, r driver.Region, f *bitstream.File) error {
	for _, part := range partsOf(c) {
		if err := b.fpgas.Fits(part, r, f); err != nil {
			return err
		}
	}
	return nil
}

// Holds implements [driver.Driver]. A region of several FPGAs has a function only if all
// have it.
func (b Boards) Holds(r driver.Region, f *bitstream.File) bool { return b.fpgas.Holds(r, f) }

// Program implements [driver.Driver]: the file is put into each FPGA.
func (b Boards) Program(ctx context.Context, c driver.Card, r driver.Region, f *bitstream.File) error {
	for i, part := range partsOf(c) {
		err := b.fpgas.Program(ctx, part, r, f)
		switch {
		case err != nil && i > 0: // others were changed, so it is no UntouchedError
			return fmt.Errorf("%d of the %d FPGAs of board %s have the file: %v", i, len(c.Parts), c.ID, err) //nolint:errorlint // see above
		case err != nil:
			return err
		}
	}
	return nil
}

// Reset implements [driver.Driver]. The reset of one FPGA may reset the whole board; each is
// asked for, since each has errors of its own.
func (b Boards) Reset(ctx context.Context, c driver.Card, r driver.Region) (string, error) {
	var all []string
	for _, part := range partsOf(c) {
		done, err := b.fpgas.Reset(ctx, part, r)
		if err != nil {
			return "", err
		}
		all = append(all, done)
	}
	return strings.Join(all, "; "), nil
}
