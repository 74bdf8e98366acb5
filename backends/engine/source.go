package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
)

// ready reports whether a scan with these settings was accepted, or cannot be for now.
func (s *source) ready(set *Settings) bool {
	return s.last.set == set || s.hung || s.unstable >= maxUnstable
}

const (
	// wholeEvery is the time between scans of a [Poller]: how long a change without an event goes
	// unnoticed.
	wholeEvery = 10 * time.Minute
	// pollShare is how many times as long as a poll takes there is none.
	pollShare = 30
)

// scan begins a scan, or a poll if it is too early for one.
func (l *loop) scan(s *source, now time.Time) {
	found := scan{set: l.set, polled: s.requested.IsZero() && now.Before(s.periodic), slots: map[string]slot{}}
	found.rescan = !s.requested.IsZero() || s.last.set != l.set
	s.begun++
	s.scanning, found.number = now, s.begun
	if found.polled {
		found.slots = s.last.slots // a poll lacks the units that the scan did
		p, _ := s.driver.(Poller)
		go l.poll(s, p, found, s.last.Scan)
		return
	}
	l.kernel.Subscribe(l.set.Interval)
	s.lastScan, s.requested, s.periodic = now, time.Time{}, now.Add(l.set.Interval)
	d, known, own := s.driver, l.roster.all(), l.roster.of(s)
	go func() {
		found.Scan = d.Scan(known)
		present := found.places()
		for _, unit := range own {
			if _, ok := present[unit.ID]; !ok {
				found.slots[unit.ID] = slotOf(found.set.Sysfs, unit)
			}
		}
		l.post(func() { l.take(s, found) })
	}()
}

// poll polls a driver, beside the loop.
func (l *loop) poll(s *source, p Poller, found scan, last Scan) {
	began := time.Now()
	now, ok := p.Poll(last)
	took := time.Since(began)
	l.post(func() {
		s.nextPoll = time.Now().Add(max(l.set.Polling, min(pollShare*took, l.set.Interval)))
		if found.Scan = now; ok {
			l.take(s, found)
			return
		}
		l.returned(s)
		s.scanAt(time.Now()) // a scan in the place of the poll
	})
}

// polls reports whether there may be polls between scans: there are none before a scan was accepted,
// or while one has to be confirmed.
func (s *source) polls(set *Settings) bool {
	_, ok := s.driver.(Poller)
	return ok && !s.last.Unpolled && s.last.set == set && s.last.Err == nil && s.unconfirmed == 0 && s.unstable == 0
}

// places returns the indices of the units by ID.
func (f scan) places() map[string]int {
	all := make(map[string]int, len(f.Units))
	for i, unit := range f.Units {
		if _, ok := all[unit.ID]; !ok {
			all[unit.ID] = i
		}
	}
	return all
}

// slotOf reads what is where a unit was.
func slotOf(root string, unit Unit) slot {
	is := func(dir string) bool {
		_, err := os.Stat(filepath.Join(root, dir))
		return !errors.Is(err, fs.ErrNotExist)
	}
	if unit.PCI == nil {
		occupied := is(unit.Dir)
		return slot{occupied: occupied, unplugged: !occupied && !is(cmp.Or(unit.Hardware, unit.Dir))}
	}
	device, err := pci.ReadDevice(root, unit.PCI.Address)
	if err == nil {
		return slot{occupied: true, pci: &device}
	}
	// It is unplugged only if the whole directory is gone.
	occupied := is(filepath.Join("bus/pci/devices", unit.PCI.Address.String()))
	return slot{occupied: occupied, unplugged: !occupied, err: err}
}

// returned records that no scan of a source is in progress any more.
func (l *loop) returned(s *source) {
	s.scanning = time.Time{}
	l.changed, s.hung = l.changed || s.hung, false
	if s.exclusive != nil && s.exclusive.idle != nil {
		close(s.exclusive.idle)
	}
}

// take accepts the result of a scan, or asks for another one.
func (l *loop) take(s *source, found scan) {
	now := time.Now()
	l.returned(s)
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
	if !found.polled {
		s.periodic, s.nextPoll = now.Add(l.untilNext(s, found)), now.Add(l.set.Polling)
	}
	s.last, s.candidate = found, ""
	l.changed = l.changed || !found.polled // what a poll changes is health
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
	suspect := slices.ContainsFunc(found.problems(), isNew) || !found.polled && l.lacks(s, found)
	if suspect && s.unconfirmed < maxUnconfirmed {
		if identity := found.identity(); identity != s.candidate {
			s.candidate = identity
			s.unconfirmed++
			return false
		}
	}
	s.unconfirmed = 0
	return true
}

// lacks reports whether a scan lacks a unit, a device or a content that was there.
func (l *loop) lacks(s *source, found scan) bool {
	present := found.places()
	for id, known := range l.roster.units {
		if known.source != s || known.Absent() || found.Err != nil {
			continue
		}
		if i, ok := present[id]; !ok || known.lacks(found.Units[i].Devices) {
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

// untilNext returns the time until the scan after this one.
func (l *loop) untilNext(s *source, found scan) time.Duration {
	pause := l.set.Interval
	missing := found.Err != nil || slices.ContainsFunc(found.Problems, func(p Problem) bool { return p.Lost })
	for _, unit := range found.Units {
		missing = missing || unit.Err != nil || slices.ContainsFunc(unit.Devices, func(d Device) bool { return d.EditsErr != nil })
	}
	_, polls := s.driver.(Poller)
	switch {
	case missing:
		pause = min(pause, retryFirst<<min(s.incomplete, 10))
		s.incomplete++
	case polls && !found.rescan && l.kernel.Subscribed():
		pause = max(pause, wholeEvery)
	}
	if !missing {
		s.incomplete = 0
	}
	if found.Next > 0 {
		pause = min(pause, found.Next)
	}
	return pause
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
