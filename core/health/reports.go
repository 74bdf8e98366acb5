package health

import (
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// reportSuperseded takes the health that a backend reported since the last call and reports
// no more.
func (j *Judge) reportSuperseded(b *inventory.Backend, now time.Time) {
	handled := j.handled[b.Name]
	if b.Generation < handled {
		handled = 0
	}
	for _, s := range b.Superseded {
		if s.Generation > handled {
			j.report(inventory.Key{Backend: b.Name, ID: s.ID}, s.Health, now)
		}
	}
}

// reportLast takes the last report of a backend that was lost, unless it was taken before.
func (j *Judge) reportLast(b *inventory.Backend, now time.Time) {
	if b.Generation == j.handled[b.Name] {
		return
	}
	for _, d := range b.Devices {
		if d.Health.Unread == "" {
			j.reportDevice(d, now)
		}
	}
	j.handled[b.Name] = b.Generation
}

// reportAll takes an inventory device by device.
func (j *Judge) reportAll(b *inventory.Backend, now time.Time) {
	for _, d := range b.Devices {
		if d.Health.Unread != "" {
			continue // nothing was reported of it
		}
		j.reportDevice(d, now)
		j.present(d.Key, now)
	}
	j.handled[b.Name] = b.Generation
}

// reportDevice takes a device's current health and edits.
func (j *Judge) reportDevice(d *inventory.Device, now time.Time) {
	j.report(d.Key, d.Health, now)
	r := j.records[d.Key]
	if r == nil && d.Edits.Empty() {
		r = j.record(d.Key)
	}
	if r != nil && r.checkEdits(d, now) {
		j.version++
	}
}

// report takes one report of health. It creates a record only for a device that needs one.
func (j *Judge) report(k inventory.Key, h inventory.Health, now time.Time) {
	r := j.records[k]
	if r == nil {
		if h.State != inventory.StateUnhealthy {
			return
		}
		r = j.record(k)
	}
	if !r.report(h, now) {
		return
	}
	j.version++
	if h.State == inventory.StateUnhealthy {
		j.logChange(j.log.Warn, "device has a fault", k, h.Code, h.Recovery)
	}
}
