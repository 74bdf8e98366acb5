package fpga

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// roster remembers the cards of the node and their regions, so that one that dies keeps
// its identity.
type roster struct {
	cards map[string]*record // by ID
}

// record is one card.
type record struct {
	// by is who reads it.
	by *reader
	// card is what was found last.
	card driver.Card
	// absent is why the card is not among those that were found; nil if it is.
	absent *sdk.Health
	// stray says that the driver does not have the card, so that it is set up anew if it
	// comes back.
	stray   bool
	regions map[string]*region // by ID
	sensing sensing
}

// sensing is the reading of a card's sensors.
type sensing struct {
	last driver.Senses
	// since is since when they are being read, zero if they are not; due is when they
	// are read again.
	since, due time.Time
}

// region is one region of a card.
type region struct {
	of *record
	// now is what was read last, known that when it was neither busy nor missing: what
	// the region is.
	now, known driver.Region
	given      given
	// missing is why the card does not have it now; nil if it has.
	missing *sdk.Health
	// busy is since when it is in reset or being programmed, zero if it is not.
	busy time.Time
	// lost is what it was when it had a function, if that got lost.
	lost *driver.Region
	// task is what this process does to it; claim what it is to have for the containers
	// that start now.
	task  *task
	claim *claim
	// program is what this process put into it; nil if it did not, or if something else
	// happened to it since.
	program *program
	// renewed says that it was reset or its driver loaded anew, until a look with a
	// number above renewedAt was taken in; then fresh says that nothing but that is known
	// of it: evidence that what was wrong is over.
	renewed   bool
	renewedAt uint64
	fresh     bool
	// own says that a fault of its own needed more than time since it was fresh.
	own bool
	// said is the health that was published.
	said *sdk.Health
}

// program is what was put into a region.
type program struct {
	name, version string
	// failed is why that failed, so that nobody knows what the region has, whatever ID it
	// shows, until it is programmed again; nil if it did not.
	failed error
	// state and function are what the region said afterwards; state is empty until it
	// was read.
	state    driver.State
	function string
}

func newRoster() *roster { return &roster{cards: map[string]*record{}} }

// sorted are the cards by ID.
func (r *roster) sorted() []*record {
	return slices.SortedFunc(maps.Values(r.cards), func(a, b *record) int { return cmp.Compare(a.card.ID, b.card.ID) })
}

// of are the cards of a reader.
func (r *roster) of(by *reader) []driver.Card {
	var all []driver.Card
	for _, known := range r.sorted() {
		if known.by == by {
			all = append(all, known.card)
		}
	}
	return all
}

// addresses are the PCI addresses of known cards.
func (r *roster) addresses() map[pci.Address]bool {
	all := map[pci.Address]bool{}
	for _, known := range r.cards {
		if known.card.PCI != nil {
			all[known.card.PCI.Address] = true
		}
	}
	return all
}

// forget drops the cards of a reader.
func (r *roster) forget(by *reader) {
	maps.DeleteFunc(r.cards, func(_ string, known *record) bool { return known.by == by })
}

// region is the one with an ID, or nil.
func (r *roster) region(id string) *region {
	for _, known := range r.cards {
		if found := known.regions[id]; found != nil {
			return found
		}
	}
	return nil
}

// sorted are the regions by number, then ID.
func (k *record) sorted() []*region {
	return slices.SortedFunc(maps.Values(k.regions), func(a, b *region) int {
		return cmp.Or(cmp.Compare(a.known.Number, b.known.Number), cmp.Compare(a.known.ID, b.known.ID))
	})
}

// take takes in what a reader found, and says what it does not take: cards and regions
// whose IDs others have.
func (r *roster) take(by *reader, found look, now time.Time) (twice []string) {
	present, taken := map[string]bool{}, map[pci.Address]bool{}
	for _, card := range found.Cards {
		if card.PCI != nil {
			taken[card.PCI.Address] = true
		}
		known := r.cards[card.ID]
		if known != nil && known.by.rank < by.rank || present[card.ID] {
			twice = append(twice, fmt.Sprintf("%s of the driver %s is left out: another card has its ID", card.ID, by.driver.Name()))
			continue
		}
		if present[card.ID] = true; known == nil {
			known = &record{by: by, regions: map[string]*region{}}
			r.cards[card.ID] = known
		}
		known.by = by // a driver that is asked earlier goes before
		twice = append(twice, known.found(r, card, found, now)...)
	}
	for id, known := range r.cards {
		if known.by != by || present[id] {
			continue
		}
		if !found.places[id].there || known.card.PCI != nil && taken[known.card.PCI.Address] {
			delete(r.cards, id) // unplugged, and maybe another one is in its slot
			continue
		}
		known.lose(found)
	}
	return twice
}

// found takes in what is known of a card that is there.
func (k *record) found(r *roster, card driver.Card, by look, now time.Time) (twice []string) {
	if k.stray {
		for _, region := range k.regions {
			region.renew(by.number - 1)
		}
	}
	k.card, k.absent, k.stray = card, nil, false
	present := map[string]bool{}
	for _, read := range card.Regions {
		known := k.regions[read.ID]
		if present[read.ID] || known == nil && r.region(read.ID) != nil {
			twice = append(twice, fmt.Sprintf("region %d of %s is left out: another has its ID %s", read.Number, card.ID, read.ID))
			continue
		}
		if present[read.ID] = true; known == nil {
			known = &region{of: k, known: read}
			k.regions[read.ID] = known
		}
		known.found(read, by, now)
	}
	for id, known := range k.regions {
		if present[id] {
			continue
		}
		reason := by.reason(card)
		if known.busyWith(by) {
			continue
		}
		if reason == "" {
			delete(k.regions, id) // the card has another number of regions now
			continue
		}
		known.fresh = false
		known.forget()
		known.missing = sdk.Fault("region-incomplete", sdk.RecoverySelf, "the driver does not tell all of the region: "+reason)
	}
	return twice
}

// lose says why a card that was known is not there now.
func (k *record) lose(by look) {
	where := by.places[k.card.ID]
	name := k.card.ID
	if k.card.PCI != nil {
		name = k.card.PCI.Address.String()
	}
	reason := by.reason(k.card)
	switch {
	case by.Absent:
		k.stray = true
		k.absent = sdk.Fault("driver-away", sdk.RecoverySelf, fmt.Sprintf(
			"the driver of the card (%s) is not loaded: load it, or wait for who does", k.by.driver.Name()))
	case where.err != nil:
		k.absent = sdk.Fault("card-gone", sdk.RecoverySelf, fmt.Sprintf(
			"the card does not answer, though it is on the PCI bus: see the kernel's log, and reboot the node if it stays so (%v)", where.err))
	case where.pci != nil && where.pci.Driver == "" && reason == "":
		k.stray = true
		k.absent = sdk.Fault("driver-unbound", sdk.RecoverySelf, fmt.Sprintf("no driver has the card: bind %s to its driver again, or unplug it", name))
	case where.pci != nil && k.card.PCI.Driver != "" && where.pci.Driver != k.card.PCI.Driver && reason == "":
		k.stray = true
		k.absent = sdk.Fault("driver-unbound", sdk.RecoverySelf, fmt.Sprintf(
			"the driver %s has the card: bind %s to %s again", where.pci.Driver, name, k.card.PCI.Driver))
	default:
		k.absent = sdk.Fault("card-incomplete", sdk.RecoverySelf, fmt.Sprintf(
			"the driver does not tell all of the card: %s", cmp.Or(reason, "it is not among those that it lists")))
	}
	for _, region := range k.regions {
		if !region.busyWith(by) {
			region.fresh = false
			region.forget()
		}
	}
}

// found takes in what was read of a region.
func (r *region) found(read driver.Region, by look, now time.Time) {
	if r.busyWith(by) {
		return
	}
	r.given, r.missing, r.now = by.given[read.ID], nil, read
	if read.State == driver.Busy {
		if r.busy.IsZero() {
			r.busy = now
		}
		return
	}
	r.busy = time.Time{}
	switch {
	case read.State != driver.Unloaded:
		r.lost = nil
	case r.known.State == driver.Loaded:
		lost := r.known
		r.lost = &lost
	}
	r.known = read
	if p := r.program; p != nil {
		if p.state == "" {
			p.state, p.function = read.State, read.Function
		}
		if p.state != read.State || p.function != read.Function || p.failed == nil && read.State == driver.Unloaded {
			r.program = nil // by others, or in vain
		}
	}
	if r.renewed && by.number > r.renewedAt {
		r.renewed, r.fresh, r.own = false, true, false
	}
}

// busyWith reports whether this process did something to the region when a look began:
// it saw half of that. A look that began later ends the task.
func (r *region) busyWith(by look) bool {
	if r.task == nil {
		return false
	}
	if !r.task.over || by.number <= r.task.overAt {
		return true
	}
	r.task = nil
	return false
}

// renew notes that a region was reset, or its driver loaded anew, before the look after
// the one with a number began.
func (r *region) renew(at uint64) {
	r.renewed, r.renewedAt, r.fresh = true, at, false
	r.forget()
}

// forget forgets what this process put into the region, which somebody else may have
// changed. A programming that failed is remembered: what is left of it may have any ID.
func (r *region) forget() {
	if r.program != nil && r.program.failed == nil {
		r.program = nil
	}
}
