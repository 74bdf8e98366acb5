package amd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// roster remembers the cards of the node, so that one that dies keeps its identity:
// its ID, what it was, and the partitions that it had.
type roster struct {
	cards map[string]*record // by ID
}

// record is one card.
type record struct {
	// gpu is what was found last.
	gpu gpu.GPU
	// given is what containers get with its partitions, by ID.
	given map[string]given
	// absent is why the card is not among those that were found; nil if it is.
	absent *sdk.Health
	// stray says that the driver does not have the card, so that it is set up anew if it
	// comes back.
	stray bool

	counts counts
	// resetting is since when the card is being reset, at the latest by when it must be
	// over; zero if it is not.
	resetting, resetBy time.Time
	// unseen is since when the card waits for a look after a reset that is over: its
	// counters alone do not say that all of it is there again. Zero if it does not.
	unseen time.Time
	// wedged is what the driver said with a uevent that it could not mend itself.
	wedged *sdk.Health
	// hot is when heat slowed the card down last.
	hot time.Time
	// fresh says that the card was reset or its driver loaded anew, that its counters
	// were read since, and that nothing was heard since: evidence that what was wrong
	// is over.
	fresh bool
	// bad is what the exporter says is wrong; empty if it says nothing of the kind.
	bad string
	// said is the health that was published.
	said *sdk.Health
}

// counts are the error counters of a card, and the reading of them.
type counts struct {
	reader counterReader
	// withLinks says that the reader reads errors of the links.
	withLinks bool
	// last is what was read last, at (when that began), err what could not be read; at
	// is zero if there was no reading yet.
	last ras.Counters
	at   time.Time
	err  error
	// reading is since when they are being read, zero if they are not; due is when they
	// are read again.
	reading, due time.Time
	// baseline and links are the errors that are over: those before a reset that was
	// seen.
	baseline, links uint64
	// rebase is when such a reset was over: the first reading that begins later is the
	// baseline. Zero if there is none to come.
	rebase time.Time
}

func newRoster() *roster { return &roster{cards: map[string]*record{}} }

// sorted are the cards by their addresses.
func (r *roster) sorted() []*record {
	return slices.SortedFunc(maps.Values(r.cards), func(a, b *record) int {
		return a.gpu.PCI.Address.Compare(b.gpu.PCI.Address)
	})
}

// at is the card at an address, or nil.
func (r *roster) at(address pci.Address) *record {
	for _, known := range r.cards {
		if known.gpu.PCI.Address == address {
			return known
		}
	}
	return nil
}

// take takes in what a look found.
func (r *roster) take(found look, now time.Time) {
	present := map[string]bool{}
	taken := map[pci.Address]bool{}
	for _, g := range found.inventory.GPUs {
		present[g.ID], taken[g.PCI.Address] = true, true
		known := r.cards[g.ID]
		if known == nil {
			known = &record{}
			r.cards[g.ID] = known
		}
		known.found(g, found, now)
	}
	// Its slot is all that tells of a card that is not there. A card that is unplugged,
	// and one whose slot has another now, is forgotten.
	maps.DeleteFunc(r.cards, func(id string, known *record) bool {
		at := known.gpu.PCI.Address
		_, onBus := found.bus[at]
		return !present[id] && (taken[at] || !onBus)
	})
	for id, known := range r.cards {
		if !present[id] {
			known.lost(found)
		}
	}
}

// found takes in what is known of a card that is there.
func (k *record) found(g gpu.GPU, by look, now time.Time) {
	if k.stray {
		k.renew(now)
		k.unseen = time.Time{} // this look has
	}
	k.looked(by)
	if k.gpu.PCI.Address != g.PCI.Address {
		k.counts = counts{at: k.counts.at} // the rest is of another slot's files
	}
	k.given = map[string]given{}
	for _, p := range g.Partitions {
		k.given[p.ID] = by.given[p.ID]
	}
	if g.Compute == k.gpu.Compute {
		g.Partitions = k.keep(g.Partitions, by)
	}
	k.gpu, k.absent, k.stray = g, nil, false
}

// keep adds to the partitions found those that the card had before in the same mode, with a
// fault: in a mode a card has all its partitions, so a missing one is broken, not gone.
func (k *record) keep(found []gpu.Partition, by look) []gpu.Partition {
	for _, p := range k.gpu.Partitions {
		if slices.ContainsFunc(found, func(f gpu.Partition) bool { return f.ID == p.ID }) {
			continue
		}
		p.Links = nil
		k.given[p.ID] = given{fault: sdk.Fault(partitionIncomplete, sdk.RecoverySelf,
			"the kernel shows only a part of the partition: "+by.partitionReason())}
		found = append(slices.Clip(found), p)
	}
	slices.SortFunc(found, func(a, b gpu.Partition) int { return cmp.Compare(a.Index, b.Index) })
	return found
}

// lost says why a card that was known is not there now.
func (k *record) lost(by look) {
	at := k.gpu.PCI.Address
	onBus := by.bus[at]
	k.fresh = false
	k.looked(by)
	switch {
	case by.err != nil && errors.Is(by.err, fs.ErrNotExist):
		k.stray = true
		k.absent = sdk.Fault("driver-away", sdk.RecoverySelf, "the driver amdgpu is not loaded: modprobe amdgpu, or wait for who loads it")
	case onBus.err != nil:
		k.absent = sdk.Fault("gpu-gone", sdk.RecoverySelf, fmt.Sprintf(
			"the GPU does not answer, though it is on the PCI bus: see the kernel's log, and reboot the node if it stays so (%v)", onBus.err))
	case onBus.driver == "":
		k.stray = true
		k.absent = sdk.Fault("driver-unbound", sdk.RecoverySelf, fmt.Sprintf(
			"the driver amdgpu has let go of the GPU: bind %s to it again, or unplug it", at))
	case onBus.driver != "amdgpu":
		k.stray = true
		k.absent = sdk.Fault("driver-unbound", sdk.RecoverySelf, fmt.Sprintf(
			"the driver %s has the GPU: bind %s to amdgpu again", onBus.driver, at))
	default:
		k.absent = sdk.Fault("gpu-incomplete", sdk.RecoverySelf, "what the kernel shows of the GPU is incomplete or contradictory: "+by.reason(at))
	}
}

// looked ends the wait for a look, if this one began after the reset.
func (k *record) looked(by look) {
	if !by.began.Before(k.unseen) {
		k.unseen = time.Time{}
	}
}

// renew drops what was heard of a card that was reset, or whose driver was loaded
// anew. What its counters say from now on is judged, once it was looked at.
func (k *record) renew(now time.Time) {
	k.wedged, k.hot, k.resetting, k.resetBy, k.fresh = nil, time.Time{}, time.Time{}, time.Time{}, false
	k.counts.rebase, k.counts.due, k.unseen = now, now, now
}

// counted takes in what a reading of the counters found.
func (k *record) counted(c ras.Counters, began time.Time, err error) {
	n := &k.counts
	if n.err = err; errors.Is(err, fs.ErrNotExist) && len(c.Blocks) == 0 {
		n.at = began
		return // unplugged, as the next look will find
	}
	if c.Busy {
		n.at = began
		n.last.Busy = true
		return // of the others nothing is known now
	}
	n.last, n.at = c, began
	errorsNow, linksNow := c.Uncorrectable().N, c.XGMI.N
	if !n.rebase.IsZero() && !began.Before(n.rebase) && k.absent == nil {
		n.baseline, n.links, n.rebase = errorsNow, linksNow, time.Time{}
		k.fresh = err == nil
	}
	// A driver that was loaded anew counts from the beginning.
	n.baseline, n.links = min(n.baseline, errorsNow), min(n.links, linksNow)
}

// unread reports whether the counters of the card are being read for the first time,
// and nothing else is wrong.
func (k *record) unread() bool {
	return k.counts.at.IsZero() && !isFault(k.said) && (k.counts.reading.IsZero() || time.Since(k.counts.reading) < hangs)
}

// unread reports whether one of the cards is.
func (r *roster) unread() bool {
	for _, known := range r.cards {
		if known.unread() {
			return true
		}
	}
	return false
}

// give makes the edits of the card's partitions by settings.
func (k *record) give(cfg *config) {
	for _, p := range k.gpu.Partitions {
		if k.given[p.ID].fault.GetCode() != partitionIncomplete {
			k.given[p.ID] = giving(cfg.edits, cfg.host.Devfs, p)
		}
	}
}

// dir is the directory of the card's PCI function.
func (k *record) dir(sysfs string) string {
	return filepath.Join(sysfs, "bus", "pci", "devices", k.gpu.PCI.Address.String())
}
