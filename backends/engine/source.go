package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
)

const (
	// settle is the pause after an event, so that a burst causes one scan, and before a
	// scan is confirmed. eventPause is the least time between scans that events ask for.
	settle, eventPause = 250 * time.Millisecond, time.Second
	// retryFirst is the pause before the first scan for what is missing; it doubles.
	retryFirst = time.Second
	// maxUnstable is the number of consecutive scans that saw a change in progress before a
	// problem is reported.
	maxUnstable = 16
	// maxUnconfirmed is the number of consecutive scans that were not confirmed before the
	// latest is accepted.
	maxUnconfirmed = 16
)

// next returns the time of the next scan: the periodic one, or an earlier one on request.
func (s *source) next() time.Time {
	if s.requested.IsZero() {
		return s.periodic
	}
	return earlier(s.periodic, s.requested)
}

// soon asks for a scan after an event.
func (s *source) soon(now time.Time) {
	s.incomplete = 0
	at := now.Add(settle)
	began := s.last.began
	if !s.scanning.IsZero() {
		began = s.scanning
	}
	if next := began.Add(eventPause); at.Before(next) {
		at = next
	}
	s.scanAt(at)
}

// scanAt asks for a scan at a time or earlier.
func (s *source) scanAt(at time.Time) {
	if s.requested.IsZero() || at.Before(s.requested) {
		s.requested = at
	}
}

// scanned reports whether a scan with these settings was accepted, or cannot be for now.
func (s *source) scanned(set *Settings) bool {
	return s.last.set == set || s.hung || s.unstable >= maxUnstable
}

// scan begins a scan.
func (l *loop) scan(s *source, now time.Time) {
	l.kernel.Subscribe(l.set.Interval)
	s.scanning, s.requested, s.periodic = now, time.Time{}, now.Add(l.set.Interval)
	s.begun++
	d, own, known := s.driver, l.roster.of(s), l.roster.all()
	found := scan{set: l.set, began: now, number: s.begun, slots: map[string]slot{}}
	go func() {
		found.Scan = d.Scan(known)
		for _, unit := range own {
			if !slices.ContainsFunc(found.Units, func(u Unit) bool { return u.ID == unit.ID }) {
				found.slots[unit.ID] = slotOf(found.set.Sysfs, unit)
			}
		}
		l.post(func() { l.take(s, found) })
	}()
}

// slotOf reads what is where a unit was.
func slotOf(root string, unit Unit) slot {
	if unit.PCI == nil {
		_, err := os.Stat(filepath.Join(root, unit.Dir))
		return slot{occupied: !errors.Is(err, fs.ErrNotExist)}
	}
	device, err := pci.ReadDevice(root, unit.PCI.Address)
	if err == nil {
		return slot{occupied: true, pci: &device}
	}
	// It is unplugged only if the whole directory is gone.
	_, gone := os.Stat(filepath.Join(root, "bus", "pci", "devices", unit.PCI.Address.String()))
	return slot{occupied: !errors.Is(gone, fs.ErrNotExist), err: err}
}

// take accepts the result of a scan, or asks for another one.
func (l *loop) take(s *source, found scan) {
	now := time.Now()
	s.scanning = time.Time{}
	l.changed, s.hung = l.changed || s.hung, false
	if s.exclusive != nil && s.exclusive.idle != nil {
		close(s.exclusive.idle)
	}
	if !slices.Contains(l.sources, s) {
		return // the settings no longer have the driver
	}
	if found.set != l.set {
		s.requested = now // it was made with older settings
		return
	}
	if !l.confirmed(s, found) {
		if s.unstable < maxUnstable { // otherwise wait for the periodic scan
			s.scanAt(now.Add(settle))
		}
		return
	}
	s.periodic = now.Add(s.pause(found, l.set.Interval))
	if found.Next > 0 {
		s.scanAt(now.Add(found.Next))
	}
	s.last, s.candidate, l.changed = found, "", true
	if found.Err == nil {
		s.duplicates = l.roster.take(s, found, now, l.remember())
	}
}

// confirmed reports whether a scan is to be accepted; see the package comment.
func (l *loop) confirmed(s *source, found scan) bool {
	if found.Unstable {
		if s.unstable++; s.unstable >= maxUnstable {
			l.changed = l.changed || s.unstable == maxUnstable || !slices.Equal(s.unstableProblems, found.problems())
			s.unstableProblems = found.problems()
		}
		s.candidate = ""
		return false
	}
	s.unstable, s.unstableProblems = 0, nil
	before := s.last.problems()
	isNew := func(problem string) bool { return !slices.Contains(before, problem) }
	suspect := slices.ContainsFunc(found.problems(), isNew) || l.lacks(s, found)
	if identity := found.identity(); suspect && identity != s.candidate && s.unconfirmed < maxUnconfirmed {
		s.candidate = identity
		s.unconfirmed++
		return false
	}
	s.unconfirmed = 0
	return true
}

// lacks reports whether a scan lacks a unit, a device or a content that was there.
func (l *loop) lacks(s *source, found scan) bool {
	for id, known := range l.roster.units {
		if known.source != s || known.Absent() || found.Err != nil {
			continue
		}
		i := slices.IndexFunc(found.Units, func(u Unit) bool { return u.ID == id })
		if i < 0 {
			return true
		}
		if known.lacks(found.Units[i].Devices) {
			return true
		}
	}
	return false
}

// lacks reports whether a reading lacks a device or a content that was there.
func (u *KnownUnit) lacks(read []Device) bool {
	for id, d := range u.devices {
		i := slices.IndexFunc(read, func(d Device) bool { return d.ID == id })
		if i < 0 && d.missing == nil || i >= 0 && !read[i].Busy && read[i].Content == "" && d.Stable.Content != "" {
			return true
		}
	}
	return false
}

// pause returns the time until the scan after this one.
func (s *source) pause(found scan, interval time.Duration) time.Duration {
	missing := found.Err != nil || slices.ContainsFunc(found.Problems, func(p Problem) bool { return p.Lost })
	for _, unit := range found.Units {
		missing = missing || slices.ContainsFunc(unit.Devices, func(d Device) bool { return d.EditsErr != nil })
	}
	if !missing {
		s.incomplete = 0
		return interval
	}
	pause := retryFirst << min(s.incomplete, 10)
	s.incomplete++
	return min(pause, interval)
}

// problems returns the problems of the last scan and of scanning itself.
func (s *source) problems(device string) []string {
	all := append(s.last.problems(), s.duplicates...)
	switch {
	case s.hung:
		all = append(all, fmt.Sprintf(
			"the read of the %ss of the driver %s that began at %s has not returned, so changes are not seen, and the last known health applies: the driver hangs; see the kernel log",
			device, s.driver.Name(), s.scanning.UTC().Format(time.RFC3339)))
	case s.unstable >= maxUnstable:
		all = append(all, fmt.Sprintf(
			"the %ss of the driver %s change during each scan, or cannot be read, so changes are not listed yet", device, s.driver.Name()))
		all = append(all, s.unstableProblems...)
	}
	return all
}

// identity is the same for two scans that saw the same machine.
func (f scan) identity() string {
	var text strings.Builder
	for _, unit := range f.Units {
		fmt.Fprint(&text, unit.ID)
		for _, d := range unit.Devices {
			fmt.Fprint(&text, " ", d.ID, "=", d.Busy, d.Content)
		}
		text.WriteByte('\n')
	}
	text.WriteString(strings.Join(f.problems(), "\n"))
	return text.String()
}

// problems returns the problems of a scan, for users.
func (f scan) problems() []string {
	var all []string
	for _, p := range f.Problems {
		switch {
		case p.Lost:
			all = append(all, fmt.Sprintf("%s is left out: %v", p.Device, p.Err))
		case p.Device == "":
			all = append(all, p.Err.Error())
		default:
			all = append(all, fmt.Sprintf("%s: %v", p.Device, p.Err))
		}
	}
	if f.Err != nil {
		all = append(all, fmt.Sprintf("the devices could not be read, so changes are not seen: %v", f.Err))
	}
	return all
}

// reason returns why something of a unit is left out; empty if no problem has it. A problem
// names the unit's PCI address, or the name of its directory.
func (f scan) reason(unit Unit) string {
	for _, p := range f.Problems {
		name, _, _ := strings.Cut(p.Device, " ")
		if p.Lost && (unit.PCI != nil && name == unit.PCI.Address.String() || unit.PCI == nil && name == filepath.Base(unit.Dir)) {
			return p.Err.Error()
		}
	}
	return ""
}
