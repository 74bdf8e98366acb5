package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// unread is what a backend could not look at: reasons by the ID of a device, by the place of one, and
// for all that are not listed.
type unread struct {
	ids, places map[string]string
	all         string
	// order has each ID and place once, as the backend named them.
	order []string
	// problems has what the backend reports beside that.
	problems string
}

// parseUnread returns the valid entries of a report. More than a report may have count as one for all
// devices: to leave out the rest would make their devices vanish.
func parseUnread(w *Report, remarks *problems) unread {
	wire, reported := w.GetUnread(), w.GetProblems()
	u := unread{ids: map[string]string{}, places: map[string]string{}, problems: strings.Join(reported[:min(len(reported), MaxProblems)], "\n")}
	if n := len(wire); n > MaxDevices {
		remarks.add("", "it names %d devices that it could not look at; more than %d count as all", n, MaxDevices)
		wire = []*backendv1.Unread{{Reason: wire[0].GetReason()}}
	}
	for _, w := range wire {
		id, place := w.GetDeviceId(), w.GetPciBusId()
		reason := cmp.Or(w.GetReason(), "the backend gives no reason")
		switch {
		case id == "" && place == "":
			u.all = cmp.Or(u.all, reason)
			continue
		case id != "" && checkID("", id) != nil, place != "" && !pciSyntax.MatchString(place):
			remarks.add("", "the device %s at %s could not be looked at, and is not known by that: give its ID, or its PCI address such as 0000:65:00.0: %s",
				quote(id), quote(place), reason)
			continue
		}
		for name, reasons := range map[string]map[string]string{id: u.ids, place: u.places} {
			if name != "" && reasons[name] == "" {
				reasons[name] = reason
				u.order = append(u.order, name)
			}
		}
	}
	return u
}

// none reports whether the backend looked at everything.
func (u unread) none() bool { return u.all == "" && len(u.order) == 0 }

// named returns why the backend could not look at a device by an entry for it or for one that it is a part of, and the
// name in that entry.
func (u unread) named(d *Device, earlier map[string]*Device) (reason, name string) {
	for range maxParents {
		if reason = u.ids[d.ID]; reason != "" {
			return reason, d.ID
		}
		if reason = u.places[d.PCIBusID]; reason != "" {
			return reason, d.PCIBusID
		}
		parent := earlier[d.Parent]
		if parent == nil {
			return u.ids[d.Parent], d.Parent
		}
		d = parent
	}
	return "", ""
}

// keep returns the earlier devices that the report does not list and that the backend could not look at, as they were
// listed last. Entries for devices that are not known are problems, unless the backend reports them as such.
func (u unread) keep(earlier []*Device, listed map[string]bool, now time.Time, remarks *problems) (kept []*Device) {
	if u.none() {
		return nil
	}
	known, used := byID(earlier), map[string]bool{}
	for _, d := range earlier {
		reason, name := u.named(d, known)
		used[name] = true
		if reason = cmp.Or(reason, u.all); reason == "" || listed[d.ID] {
			continue
		}
		kept = append(kept, d.asUnread(reason, now))
	}
	for _, name := range u.order {
		if !used[name] && !listed[name] && !strings.Contains(u.problems, name) {
			remarks.add("", "%s could not be looked at, and was not known before: %s", name, cmp.Or(u.ids[name], u.places[name]))
		}
	}
	if u.all != "" && len(kept) == 0 && !strings.Contains(u.problems, u.all) {
		remarks.add("", "the backend could not look for devices, and knows of none but the listed ones: %s", u.all)
	}
	return kept
}

// asUnread returns the device with the health of one that could not be looked at.
func (d *Device) asUnread(reason string, now time.Time) *Device {
	if d.Health.Unread == reason {
		return d
	}
	changed := *d
	changed.Health = Health{State: StateUnknown, Unread: reason, UnreadSince: now}
	if d.Health.Unread != "" {
		changed.Health.UnreadSince = d.Health.UnreadSince
	}
	return &changed
}

// keep adds the devices that the backend could not look at. One that listed devices exclude is dropped: its hardware was set
// up in another way meanwhile. Of the node's labels, those of before stay if nothing could be looked at.
func (c *reportCheck) keep(u unread, before *Backend, now time.Time) {
	for _, d := range u.keep(before.Devices, c.reported, now, &c.remarks) {
		c.keepSets(d, before.CounterSets)
		var err error
		switch first, twice := c.names[d.Name()]; {
		case len(c.entries) >= MaxDevices:
			err = fmt.Errorf("a backend has at most %d devices", MaxDevices)
		case twice:
			err = fmt.Errorf("device %s has its name in ResourceSlices", first.id)
		default:
			err = c.rest.consume(d, c.whole)
		}
		if err != nil {
			c.left.add(d.ID, "the device, which could not be looked at, is not kept: %s", err)
			continue
		}
		c.enter(entry{checkedDevice: &checkedDevice{id: d.ID, device: d}, kept: true})
	}
	c.out.sets = sortSets(c.out.sets)
	if u.all == "" {
		return
	}
	for _, l := range before.NodeLabels {
		if len(c.out.labels) < maxNodeLabels && !slices.ContainsFunc(c.out.labels, func(o NodeLabel) bool { return o.Name == l.Name }) {
			c.out.labels = append(c.out.labels, l)
		}
	}
	sortLabels(c.out.labels)
}

// keepSets adds the counter sets that a kept device consumes of and that the report does not have.
func (c *reportCheck) keepSets(d *Device, before []CounterSet) {
	for _, consumed := range d.Consumes {
		i, found := slices.BinarySearchFunc(before, consumed.Set, func(s CounterSet, name string) int { return strings.Compare(s.Name, name) })
		if found && c.whole[consumed.Set] == nil && len(c.out.sets) < maxSets {
			c.out.sets = append(c.out.sets, before[i])
			c.whole[consumed.Set], c.rest[consumed.Set] = before[i].Counters.Map(), before[i].Counters.Map()
		}
	}
}

// keptLinks returns the links of a kept device to devices that are listed or kept.
func keptLinks(d *Device, listed map[string]entry) []Link {
	gone := func(l Link) bool { _, ok := listed[l.Peer]; return !ok }
	if !slices.ContainsFunc(d.Links, gone) {
		return d.Links
	}
	return slices.DeleteFunc(slices.Clone(d.Links), gone)
}
