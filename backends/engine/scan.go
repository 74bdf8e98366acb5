package engine

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
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

// hangs is how long a scan or a check may take before a problem is reported.
const hangs = 5 * time.Second

// next returns the time of the next scan: the periodic one, or an earlier one on request; or of a
// poll before it.
func (s *source) next(set *Settings) time.Time {
	switch {
	case !s.requested.IsZero():
		return earlier(s.periodic, s.requested)
	case s.polls(set):
		return earlier(s.periodic, s.nextPoll)
	}
	return s.periodic
}

// soon asks for a scan after an event.
func (s *source) soon(now time.Time) {
	s.incomplete = 0
	at := now.Add(settle)
	if next := s.lastScan.Add(eventPause); at.Before(next) {
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

func (l *loop) scanSoon() {
	now := time.Now()
	for _, s := range l.sources {
		s.soon(now)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
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
		case p.Device == "":
			all = append(all, p.Err.Error())
		case p.Lost:
			all = append(all, fmt.Sprintf("%s is left out: %v", p.Device, p.Err))
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
		if p.Lost && p.isOf(unit) {
			return p.Err.Error()
		}
	}
	return ""
}

// name is a PCI address or a name in sysfs.
func (p Problem) name() string {
	name, _, _ := strings.Cut(p.Device, " ")
	return name
}

func (p Problem) isOf(unit Unit) bool {
	if unit.PCI != nil {
		return p.name() == unit.PCI.Address.String()
	}
	return p.name() == filepath.Base(unit.Dir)
}
