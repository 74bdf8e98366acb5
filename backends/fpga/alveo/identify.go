package alveo

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/fpga/driver"
)

// identity is the identity of a card.
type identity struct {
	id, board string
	// fpgas is as [Card.fpgas].
	fpgas int
	err   error
}

var errUnknown = errors.New("it is not known which card it is: it is in reset or not ready, and has not reported its serial number " +
	"since this program started; it is listed once it is back")

// identify identifies the cards, and remembers them. Nothing is remembered of a machine that
// changed meanwhile: a card may have been read without its serial number.
func (d *Driver) identify(i Inventory) []identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]bool{}
	for _, c := range i.Cards {
		if c.Serial != "" && seen[c.Serial] && !i.Unstable {
			d.shared[c.Serial] = true
		}
		seen[c.Serial] = true
	}
	all := make([]identity, len(i.Cards))
	for n, c := range i.Cards {
		all[n] = d.identity(c, !i.Unstable)
	}
	return all
}

// identity returns which card one is. An ID that was given stays: a card whose controller
// takes a while to report its serial number keeps the one of its place.
func (d *Driver) identity(c Card, stable bool) identity {
	device := c.pci()
	at := device.Address
	was, known := d.places[at]
	known = known && was.vendor == device.Vendor && was.device == device.ID
	is := place{vendor: device.Vendor, device: device.ID, serial: c.Serial, fpgas: c.fpgas()}
	if known {
		is.fpgas = max(is.fpgas, was.fpgas)
	}
	switch {
	case known && (c.Serial == "" || was.serial == "" || c.Serial == was.serial) && !d.shared[c.Serial]:
		is.id = was.id
		is.serial = cmp.Or(c.Serial, was.serial)
	case c.Serial != "" && d.shared[c.Serial], c.Serial == "" && stable && c.complete():
		is.id = PlaceID(at)
	case c.Serial != "":
		is.id = SerialID(c.Serial)
	default:
		if c.Unread != nil {
			return identity{err: fmt.Errorf("it is not known which card it is: %w", c.Unread)}
		}
		return identity{err: errUnknown}
	}
	if stable {
		d.places[at] = is
	}
	board := is.id
	if is.serial != "" {
		board = SerialID(is.serial)
	}
	return identity{id: is.id, board: board, fpgas: is.fpgas}
}

// complete reports whether a missing serial number means that the card has none, since it could
// have reported one. A management function has a controller once it is up.
func (c Card) complete() bool {
	if c.Unread != nil || c.Offline() != "" {
		return false
	}
	if c.User == nil {
		return c.Management.Ready
	}
	return c.User.Ready
}

// again reads a card again; it fails if the card was removed or replaced.
func (d *Driver) again(c driver.Card) (Card, error) {
	i := Read(d.host.Sysfs)
	for n, id := range d.identify(i) {
		if id.err == nil && id.id == c.ID {
			return i.Cards[n], nil
		}
	}
	for _, p := range i.Problems {
		if p.Lost && p.Device == filepath.Base(c.Dir) {
			return Card{}, fmt.Errorf("card %s at %s: %w", c.ID, p.Device, p.Err)
		}
	}
	return Card{}, fmt.Errorf("card %s is not there any more (it was at %s)", c.ID, filepath.Base(c.Dir))
}
