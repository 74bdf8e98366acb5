package fpga

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
)

const (
	// settle is how long a burst of changes is waited for, and the pause before a
	// doubtful look is made again. changePause is the least between looks that changes
	// ask for.
	settle, changePause = 250 * time.Millisecond, time.Second
	// retryFirst is the pause before the first look for what is missing; it doubles.
	retryFirst = time.Second
	// restless is after how many looks at a machine that changes meanwhile that is told,
	// and after how many that each find something else one is believed.
	restless = 16
	// hangs is how long a reading may take before it is told of.
	hangs = 5 * time.Second
)

// reader has one driver read, one look at a time, beside the loop.
type reader struct {
	driver driver.Driver
	// rank is its place in the order of the drivers.
	rank int
	// looking is since when a look is on its way, zero if none is, and hung says that it
	// takes too long.
	looking time.Time
	hung    bool
	// begun counts the looks that began.
	begun uint64
	// last is the look that was taken in last; it began at zero if there was none.
	last look
	// due is when the next look is though nothing happens, wanted when one is because
	// something changed; zero for never.
	due, wanted time.Time
	// suspect is the identity of a doubtful look that another has to confirm, doubts how
	// many of them there were, one after another.
	suspect string
	doubts  int
	// unsettled are looks, one after another, at a machine that changed; incomplete those
	// that found something missing.
	unsettled, incomplete int
	// unseen are what the last of those looks complained of.
	unseen []string
	// twice is what was left out because something else has its ID.
	twice []string
}

// next is when the next look is.
func (r *reader) next() time.Time {
	if r.wanted.IsZero() {
		return r.due
	}
	return earlier(r.due, r.wanted)
}

// want asks for a look soon, which many may do at once.
func (r *reader) want(now time.Time) {
	r.incomplete = 0
	at := now.Add(settle)
	if next := r.last.began.Add(changePause); at.Before(next) {
		at = next
	}
	r.wantAt(at)
}

// wantAt asks for a look at a time, or earlier.
func (r *reader) wantAt(at time.Time) {
	if r.wanted.IsZero() || at.Before(r.wanted) {
		r.wanted = at
	}
}

// look begins a look.
func (l *loop) look(r *reader, now time.Time) {
	l.kernel.Attend(l.cfg.interval)
	r.looking, r.wanted, r.due = now, time.Time{}, now.Add(l.cfg.interval)
	r.begun++
	cfg, d, known, number := l.cfg, r.driver, l.roster.of(r), r.begun
	bus := l.roster.addresses()
	first := len(l.readers) > 0 && l.readers[0] == r
	go func() {
		found := gather(cfg, d, known)
		if found.number = number; first { // the bus is that of all drivers
			found.Problems = append(found.Problems, unbound(cfg, bus)...)
		}
		l.post(func() { l.take(r, found) })
	}()
}

// take takes in what a look found.
func (l *loop) take(r *reader, found look) {
	now := time.Now()
	r.looking = time.Time{}
	l.changed, r.hung = l.changed || r.hung, false
	if !slices.Contains(l.readers, r) {
		return // by other settings the driver is not wanted
	}
	if found.cfg != l.cfg {
		r.wanted = now // it went by older settings
		return
	}
	if l.doubtful(r, found) {
		if r.unsettled < restless { // else not before it is due
			r.wantAt(now.Add(settle))
		}
		return
	}
	r.due = now.Add(l.patience(r, found))
	r.last, r.suspect, l.changed = found, "", true
	r.twice = l.roster.take(r, found, now)
}

// doubtful reports whether a look may have seen half of a change. A look that lacks a
// card, a region or a function that was there, or has something to complain of that the
// one before had not, is believed when the next one says the same.
func (l *loop) doubtful(r *reader, found look) bool {
	if found.Unsettled {
		if r.unsettled++; r.unsettled >= restless {
			l.changed = l.changed || r.unsettled == restless || !slices.Equal(r.unseen, found.sentences())
			r.unseen = found.sentences()
		}
		r.suspect = ""
		return true
	}
	r.unsettled, r.unseen = 0, nil
	before := r.last.sentences()
	doubt := slices.ContainsFunc(found.sentences(), func(sentence string) bool { return !slices.Contains(before, sentence) })
	doubt = doubt || l.lacks(r, found)
	if identity := found.identity(); doubt && identity != r.suspect && r.doubts < restless {
		r.suspect = identity
		r.doubts++
		return true
	}
	r.doubts = 0
	return false
}

// lacks reports whether a look lacks what the one before had.
func (l *loop) lacks(r *reader, found look) bool {
	states := map[string]driver.State{}
	for _, card := range found.Cards {
		states[card.ID] = driver.Loaded
		for _, region := range card.Regions {
			states["region "+region.ID] = region.State
		}
	}
	for id, known := range l.roster.cards {
		if known.by != r || known.absent != nil {
			continue
		}
		if states[id] == "" {
			return true
		}
		for id, region := range known.regions {
			state := states["region "+id]
			if state == "" && region.missing == nil || state == driver.Unloaded && region.known.State == driver.Loaded {
				return true
			}
		}
	}
	return false
}

// patience is how long it is until the look after one that found this. As long as
// something is missing the looks are more frequent at first.
func (l *loop) patience(r *reader, found look) time.Duration {
	missing := false
	for _, given := range found.given {
		missing = missing || given.err != nil
	}
	for _, p := range found.Problems {
		missing = missing || p.Lost
	}
	if !missing {
		r.incomplete = 0
		return l.cfg.interval
	}
	pause := retryFirst << min(r.incomplete, 10)
	r.incomplete++
	return min(pause, l.cfg.interval)
}

// sentences are what an operator must know of what a driver says.
func (r *reader) sentences() []string {
	all := append(r.last.sentences(), r.twice...)
	switch {
	case r.hung:
		all = append(all, fmt.Sprintf(
			"reading the FPGAs of the driver %s has not come to an end since %s, so nothing new is known of them: it hangs, see the kernel's log",
			r.driver.Name(), r.looking.UTC().Format(time.RFC3339)))
	case r.unsettled >= restless:
		all = append(all, fmt.Sprintf(
			"the FPGAs of the driver %s change each time while they are read, or cannot be read, so those that come or go are not listed yet", r.driver.Name()))
		all = append(all, r.unseen...)
	}
	return all
}

// sense begins to read the sensors of a card, if it is time and nobody reads them. A card
// whose reading hangs is not read again before that comes to an end.
func (l *loop) sense(known *record, now time.Time) {
	s := &known.sensing
	if !l.cfg.senses() || known.absent != nil || !s.since.IsZero() || now.Before(s.due) {
		return
	}
	s.since, s.due = now, now.Add(l.cfg.sensors)
	d, card := known.by.driver, known.card
	go func() {
		senses := d.Sense(card)
		l.post(func() { l.sensed(known, senses, now) })
	}()
}

// sensed takes in what sensors say.
func (l *loop) sensed(known *record, senses driver.Senses, began time.Time) {
	s := &known.sensing
	if s.since.Equal(began) {
		s.since = time.Time{}
	}
	if l.cfg.Health.Alarms == report {
		for _, alarm := range senses.Faults {
			raised := func(f driver.Fault) bool { return f.Code == alarm.Code && f.Cause == alarm.Cause }
			if !slices.ContainsFunc(s.last.Faults, raised) && !l.cfg.ignores(alarm) {
				l.backend.log.Warn("a sensor raises an alarm", "card", known.card.ID, "code", alarm.Code, "message", alarm.Text)
			}
		}
	}
	l.changed = l.changed || !slices.Equal(s.last.Implausible, senses.Implausible)
	s.last = senses
}

// implausible is the problem of a card with sensors that report impossible values; "" if
// there are none.
func (s sensing) implausible(card driver.Card) string {
	const shown = 3
	names := s.last.Implausible
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - shown; n > 0 {
		names, more = names[:shown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s: sensors %s%s report impossible values, which are left out of the metrics: check whether the firmware of the card's controller is current",
		card.ID, strings.Join(names, ", "), more)
}

// senses reports whether sensors are read though nobody listens to telemetry.
func (c *config) senses() bool { return c.sensors > 0 && c.Health.Alarms != ignore }

// ignores reports whether settings say that a fault is none.
func (s *settings) ignores(f driver.Fault) bool {
	return f.Cause != "" && slices.Contains(s.Health.Ignore, f.Cause)
}

// answered reports whether the reader has looked, or cannot for now.
func (r *reader) answered() bool { return !r.last.began.IsZero() || r.hung || r.unsettled >= restless }
