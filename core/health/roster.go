package health

import (
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// Of many devices few have a record, and few say something new. What was said before of
// one without a record is nothing to act on, however often it is said: so a pass over an
// inventory whose devices are at the same places as in the one before looks at those
// that are not the same, and at those with a record.

// Places of a record that are none.
const (
	// none is of a device that is not listed.
	none int32 = -1
	// unplaced is of a record that is new: whether its device is listed is not known yet.
	unplaced int32 = -2
)

// roster is what a pass learned of a backend's devices. It holds for every inventory
// that has them at the same places.
type roster struct {
	backend *inventory.Backend
	// pass is the latest one. A roster goes when it is not that of the last pass: what was
	// heard before may be forgotten.
	pass uint64
	// parents says by ID what a device is a part of, and whole which devices have parts.
	parents map[string]string
	whole   map[string]struct{}
}

func newRoster(b *inventory.Backend) *roster {
	r := &roster{backend: b}
	for _, d := range b.Devices {
		if d.Parent == "" {
			continue
		}
		if r.parents == nil {
			r.parents, r.whole = map[string]string{}, map[string]struct{}{}
		}
		r.parents[d.ID], r.whole[d.Parent] = d.Parent, struct{}{}
	}
	return r
}

// has reports whether a device that has parts has a record of that kind.
func (r *roster) has(records map[inventory.Key]*record, backend string, kind func(*record) bool) bool {
	if len(r.whole) == 0 {
		return false
	}
	for k, record := range records {
		if _, whole := r.whole[k.ID]; whole && k.Backend == backend && kind(record) {
			return true
		}
	}
	return false
}

// superseded takes what a backend said since the last call and says no more.
func (j *Judge) superseded(b *inventory.Backend, now time.Time) {
	handled := j.handled[b.Name]
	if b.Generation < handled {
		handled = 0
	}
	for _, s := range b.Superseded {
		if s.Generation > handled {
			j.say(inventory.Key{Backend: b.Name, ID: s.ID}, s.Health, now)
		}
	}
}

// lostStatements takes what a backend said last before it was lost.
func (j *Judge) lostStatements(b *inventory.Backend, now time.Time) {
	if b.Generation == j.handled[b.Name] {
		return // said, and taken, before it was lost
	}
	for _, d := range b.Devices {
		j.hear(d, now)
	}
	j.handled[b.Name] = b.Generation
}

// hear takes what a backend says now of a device.
func (j *Judge) hear(d *inventory.Device, now time.Time) {
	j.say(d.Key, d.Health, now)
	r := j.records[d.Key]
	if r == nil && d.Edits.Empty() {
		r = j.record(d.Key)
	}
	if r != nil && r.edits(d, now) {
		j.change(d.Key)
	}
}

// hearAll takes an inventory device by device.
func (j *Judge) hearAll(b *inventory.Backend, now time.Time) {
	for i, d := range b.Devices {
		j.hear(d, now)
		j.present(d.Key, int32(i), now) //nolint:gosec // bounded by inventory.MaxDevices
	}
	for k, r := range j.records {
		if k.Backend == b.Name && r.pass != j.pass {
			r.place = none
		}
	}
	j.handled[b.Name] = b.Generation
	j.rosters[b.Name] = newRoster(b)
	j.rosters[b.Name].pass = j.pass
}

// hearChanged comes to what hearAll would. It does nothing, and returns false, unless
// the last pass was over the same devices at the same places.
func (j *Judge) hearChanged(b *inventory.Backend, now time.Time) bool {
	before := j.rosters[b.Name]
	if before == nil {
		return false
	}
	places, same := b.Differences(before.backend)
	if !same || len(places) > len(b.Devices)/4+1 || !j.placed(b, places) { // or as much work
		return false
	}
	for k, r := range j.records {
		if k.Backend == b.Name && r.place >= 0 {
			places = append(places, r.place)
		}
	}
	slices.Sort(places)
	for _, i := range slices.Compact(places) {
		j.hear(b.Devices[i], now)
		j.present(b.Devices[i].Key, i, now)
	}
	j.handled[b.Name] = b.Generation
	before.backend, before.pass = b, j.pass
	return true
}

// placed reports whether of each record of the backend is known where its device is: from
// the last pass, or as it is at one of the places that changed.
func (j *Judge) placed(b *inventory.Backend, changed []int32) bool {
	left := 0
	for k, r := range j.records {
		if k.Backend == b.Name && r.place == unplaced {
			left++
		}
	}
	if left == 0 {
		return true
	}
	for _, i := range changed {
		if r := j.records[b.Devices[i].Key]; r != nil && r.place == unplaced {
			left--
		}
	}
	return left == 0
}
