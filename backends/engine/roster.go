package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Driver is the one that the unit is read by.
func (u *KnownUnit) Driver() Driver { return u.source.driver }

// Absent reports whether the last scan did not find the unit.
func (u *KnownUnit) Absent() bool { return u.absent != nil }

// Board returns the present units of the same driver and board, this one first though it is
// absent.
func (u *KnownUnit) Board() []*KnownUnit {
	all := []*KnownUnit{u}
	for _, other := range u.roster.sorted() {
		if other != u && other.source == u.source && other.absent == nil && other.Unit.Board == u.Unit.Board {
			all = append(all, other)
		}
	}
	return all
}

// Busy reports whether the device is in reset or being programmed by another process.
func (d *KnownDevice) Busy() bool { return !d.busy.IsZero() }

// Reported returns the health that was published last; nil before that.
func (d *KnownDevice) Reported() *sdk.Health { return d.reported }

// sorted returns the units by their addresses on the PCI bus, then by ID. Those that are not
// on PCI come first.
func (r *roster) sorted() []*KnownUnit {
	address := func(u *KnownUnit) (at pci.Address) {
		if u.Unit.PCI != nil {
			at = u.Unit.PCI.Address
		}
		return at
	}
	return slices.SortedFunc(maps.Values(r.units), func(a, b *KnownUnit) int {
		return cmp.Or(address(a).Compare(address(b)), cmp.Compare(a.Unit.ID, b.Unit.ID))
	})
}

// all returns the last readings of all units.
func (r *roster) all() []Unit {
	var all []Unit
	for _, known := range r.sorted() {
		all = append(all, known.Unit)
	}
	return all
}

// of returns the last readings of the units of a source, in any order.
func (r *roster) of(s *source) []Unit {
	var all []Unit
	for _, known := range r.units {
		if known.source == s {
			all = append(all, known.Unit)
		}
	}
	return all
}

// forget drops the units of a source.
func (r *roster) forget(s *source) {
	maps.DeleteFunc(r.units, func(_ string, known *KnownUnit) bool { return known.source == s })
}

// device returns the device with an ID, or nil.
func (r *roster) device(id string) *KnownDevice {
	for _, known := range r.units {
		if found := known.devices[id]; found != nil {
			return found
		}
	}
	return nil
}

// sorted returns the devices by number, then ID.
func (u *KnownUnit) sorted() []*KnownDevice {
	return slices.SortedFunc(maps.Values(u.devices), func(a, b *KnownDevice) int {
		return cmp.Or(cmp.Compare(a.Stable.Number, b.Stable.Number), cmp.Compare(a.Stable.ID, b.Stable.ID))
	})
}

// maxUnplugged bounds the IDs of units that were unplugged: as many as a backend may have devices.
const maxUnplugged = 4096

// take takes over what a scan found. It returns problems of units and devices whose IDs
// others have.
func (r *roster) take(s *source, found scan, now time.Time, remember Rememberer) (duplicates []string) {
	present, occupied, replaced := make(map[string]bool, len(found.Units)), map[pci.Address]bool{}, map[string]bool{}
	beside := r.objectsBeside(s)
	for _, unit := range found.Units {
		known := r.units[unit.ID]
		if unit.PCI != nil && known == nil { // a function may have several units
			occupied[unit.PCI.Address] = true
		}
		if known != nil && known.source.rank < s.rank || present[unit.ID] {
			duplicates = append(duplicates, fmt.Sprintf("%s of the driver %s is left out: another %s has its ID", unit.ID, s.driver.Name(), r.options.Unit))
			continue
		}
		if same := beside.of(unit); same != nil {
			if same.source.rank < s.rank {
				duplicates = append(duplicates, twice(unit.ID, s, same.Unit.ID, same.source))
				continue
			}
			same.source.duplicates = append(same.source.duplicates, twice(same.Unit.ID, same.source, unit.ID, s))
			delete(r.units, same.Unit.ID)
		}
		if present[unit.ID] = true; known == nil {
			known = &KnownUnit{roster: r, devices: map[string]*KnownDevice{}, pluggedAgain: r.unplugged[unit.ID]}
			r.units[unit.ID] = known
			delete(r.unplugged, unit.ID)
			replaced[unit.Dir] = unit.PCI == nil && unit.Dir != ""
		}
		known.source = s // the driver of the higher precedence
		duplicates = append(duplicates, known.found(unit, found, now, remember)...)
	}
	for id, known := range r.units {
		if known.source != s || present[id] {
			continue
		}
		gone := !found.slots[id].occupied || replaced[known.Unit.Dir] || known.Unit.PCI != nil && occupied[known.Unit.PCI.Address]
		if gone && found.Absent[id] == nil && !known.wasReset(now) {
			delete(r.units, id) // unplugged, and maybe another one is in its slot
			if found.slots[id].unplugged && len(r.unplugged) < maxUnplugged {
				r.unplugged[id] = true
			}
			continue
		}
		known.miss(found, remember)
	}
	return duplicates
}

// objects has units by [Unit.Objects].
type objects map[string]*KnownUnit

// objectsBeside returns the objects of present units of other sources.
func (r *roster) objectsBeside(s *source) objects {
	all := objects{}
	for _, known := range r.units {
		if known.source == s || known.Absent() {
			continue
		}
		for _, o := range known.Unit.Objects {
			all[o] = known
		}
	}
	return all
}

// of returns a unit that has an object of another one; nil if there is none.
func (o objects) of(unit Unit) *KnownUnit {
	for _, object := range unit.Objects {
		if known := o[object]; known != nil && known.Unit.ID != unit.ID {
			return known
		}
	}
	return nil
}

// twice returns the problem of a unit that is left out, as it is one of a driver before.
func twice(id string, s *source, first string, before *source) string {
	return fmt.Sprintf("%s of %s is left out: it is %s of %s, which comes first in the settings; have only one of them match it",
		id, s.driver.Name(), first, before.driver.Name())
}

// found takes over the reading of a unit that is present.
func (u *KnownUnit) found(unit Unit, by scan, now time.Time, remember Rememberer) (duplicates []string) {
	if u.released {
		u.renew()
		for _, d := range u.devices {
			d.renew(by.number - 1)
			remember.Forget(d)
		}
	}
	u.Unit, u.absent, u.released = unit, nil, false
	defer func() { u.pluggedAgain = false }()
	present := map[string]bool{}
	for _, read := range unit.Devices {
		known := u.devices[read.ID]
		if present[read.ID] || known == nil && u.roster.device(read.ID) != nil {
			duplicates = append(duplicates, fmt.Sprintf("%s is left out: another device has its ID %s", read.Name, read.ID))
			continue
		}
		if present[read.ID] = true; known == nil {
			known = &KnownDevice{Unit: u, Stable: read}
			u.devices[read.ID] = known
			if u.pluggedAgain {
				known.renew(by.number - 1)
			}
		}
		known.found(read, by, now, remember)
	}
	for id, known := range u.devices {
		if present[id] || known.operating(by) {
			continue
		}
		reason := by.reason(unit)
		if reason == "" {
			delete(u.devices, id) // the unit has other devices now
			continue
		}
		known.recovered = false
		remember.Forget(known)
		known.missing = sdk.Fault(strings.ToLower(u.roster.options.Part)+"-incomplete", sdk.RecoverySelf,
			fmt.Sprintf("the driver does not report all of the %s: %s", u.roster.options.Part, reason))
	}
	return duplicates
}

// miss records why the scan did not find the unit.
func (u *KnownUnit) miss(by scan, remember Rememberer) {
	at, noun, self := by.slots[u.Unit.ID], u.roster.options.Unit, sdk.RecoverySelf
	name := u.Unit.ID
	if u.Unit.PCI != nil {
		name = u.Unit.PCI.Address.String()
	}
	reason := by.reason(u.Unit)
	switch why := by.Absent[u.Unit.ID]; {
	case why != nil:
		u.absent, u.released = why, u.released || by.Unloaded
	case by.Unloaded:
		u.released = true
		u.absent = sdk.Fault("driver-away", self, fmt.Sprintf("the driver of the %s (%s) is not loaded: load it, or wait until it is", noun, u.source.driver.Name()))
	case at.err != nil:
		u.absent = sdk.Fault(strings.ToLower(noun)+"-gone", self, fmt.Sprintf(
			"the %s does not answer, though it is on the PCI bus: see the kernel's log, and reboot the node if that lasts (%v)", noun, at.err))
	case at.pci != nil && at.pci.Driver == "" && reason == "":
		u.released = true
		u.absent = sdk.Fault("driver-unbound", self, fmt.Sprintf("the %s has no driver: bind %s to its driver again, or unplug it", noun, name))
	case at.pci != nil && u.Unit.PCI.Driver != "" && at.pci.Driver != u.Unit.PCI.Driver && reason == "":
		u.released = true
		u.absent = sdk.Fault("driver-unbound", self, fmt.Sprintf(
			"the driver %s has the %s: bind %s to %s again", at.pci.Driver, noun, name, u.Unit.PCI.Driver))
	default:
		u.absent = sdk.Fault(strings.ToLower(noun)+"-incomplete", self, fmt.Sprintf(
			"the driver does not report all of the %s: %s", noun, cmp.Or(reason, "it does not list it")))
	}
	for _, d := range u.devices {
		if !d.operating(by) {
			d.recovered = false
			remember.Forget(d)
		}
	}
}

// found takes over the reading of a device.
func (d *KnownDevice) found(read Device, by scan, now time.Time, remember Rememberer) {
	if d.operating(by) {
		return
	}
	d.missing, d.Read = nil, read
	if read.Busy {
		if d.busy.IsZero() {
			d.busy = now
		}
		return
	}
	d.busy = time.Time{}
	remember.Found(d, read)
	if d.Stable = read; d.Unit.Unit.Err != nil {
		return
	}
	d.stableAt, d.resetAt = by.number, time.Time{}
	d.recover()
}

// awaited reports whether the device was reset and does not answer yet, for answerLimit at most.
func (d *KnownDevice) awaited(now time.Time) bool {
	return !d.resetAt.IsZero() && now.Before(d.resetAt.Add(answerLimit)) && !d.answers()
}

// wasReset reports whether one of the devices was reset and has not been read since, for answerLimit at most.
func (u *KnownUnit) wasReset(now time.Time) bool {
	for _, d := range u.devices {
		if !d.resetAt.IsZero() && now.Before(d.resetAt.Add(answerLimit)) {
			return true
		}
	}
	return false
}

// answers reports whether the last scan found the device, and could read its unit.
func (d *KnownDevice) answers() bool {
	return d.missing == nil && d.Unit.absent == nil && d.Unit.Unit.Err == nil
}

// recover sets recovered once a scan, and a reading of required sensors, came after a reset
// or reload of the driver.
func (d *KnownDevice) recover() {
	r := d.Unit.readings
	if d.renewed && d.stableAt > d.renewedAt && (!d.Unit.source.senses || r.last > r.ignored) {
		d.renewed, d.recovered, d.ownFault = false, true, false
	}
}

// operating reports whether an operation of this process was in progress when a scan began,
// which may have seen half of it. A scan that began later ends the operation's record.
func (d *KnownDevice) operating(by scan) bool {
	if d.operation == nil {
		return false
	}
	if !d.operation.ended || by.number <= d.operation.endedAt {
		return true
	}
	d.operation = nil
	return false
}

// BeginReset records that the driver resets the unit on its own. Its devices have the fault
// "resetting" until EndReset; after 2 minutes the fault needs a reset.
func (u *KnownUnit) BeginReset() {
	u.resetting = time.Now()
	for _, d := range u.devices {
		d.recovered = false
	}
}

// EndReset records that the unit was reset or set up again by its driver: evidence of recovery, once it was scanned.
func (u *KnownUnit) EndReset() {
	u.renew()
	for _, d := range u.devices {
		d.renew(u.source.begun)
	}
	u.source.scanAt(time.Now().Add(settle))
}

// Renewals returns the number of resets of the unit and reloads of its driver so far. A vendor's
// events from before the last one no longer hold.
func (u *KnownUnit) Renewals() uint64 { return u.renewals }

// renew records a reset or a reload of the driver: readings that began before it are ignored.
func (u *KnownUnit) renew() {
	u.renewals++
	u.resetting = time.Time{}
	u.readings.ignored, u.readings.next = u.readings.begun, time.Time{}
}

// renew records a reset or driver reload; scans with a number above at show the result.
func (d *KnownDevice) renew(at uint64) { d.renewed, d.renewedAt, d.recovered = true, at, false }

func isFault(h *sdk.Health) bool { return h.GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY }
