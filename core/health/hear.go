package health

import (
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

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
	for _, d := range b.Devices {
		j.hear(d, now)
		j.present(d.Key, now)
	}
	j.handled[b.Name] = b.Generation
}
