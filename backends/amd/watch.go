package amd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
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
)

// loop looks after the GPUs. It never waits for hardware: what does runs beside it,
// and hands in a function that the loop runs.
type loop struct {
	backend *Backend
	out     *sdk.Reporter
	cfg     *config
	roster  *roster
	results chan func()
	ended   chan struct{}

	// looking is since when a look is on its way, zero if none is.
	looking time.Time
	// last is the look that was taken in last.
	last look
	// due is when the next look is though nothing happens, wanted when one is because
	// something changed (zero for never), polled when KFD was asked last.
	due, wanted, polled time.Time
	// suspect is the identity of a doubtful look that another has to confirm.
	suspect string
	// hung says that the look on its way takes too long, unsettled how many looks, one
	// after another, saw a machine that changed.
	hung      bool
	unsettled int
	// doubts are doubtful looks, one after another.
	doubts int
	// incomplete are looks, one after another, that found something missing.
	incomplete int
	// kernel has the events of the kernel.
	kernel *uevent.Subscription
	// hearings are the events of the cards, by ID.
	hearings map[string]*hearing
	// opinions is when the exporter is asked next, asking whether it is being asked, and
	// mute is why it does not answer; empty if it does.
	opinions time.Time
	asking   bool
	mute     string
	// changed says that there is something to publish, published that something was.
	changed, published bool
	// waiters wait for what the next look finds.
	waiters []*waiter
}

func newLoop(b *Backend, out *sdk.Reporter) *loop {
	return &loop{
		backend: b, out: out, roster: newRoster(), results: make(chan func()), ended: make(chan struct{}),
		hearings: map[string]*hearing{}, kernel: uevent.NewSubscription(b.log, b.seams.uevents, concerns),
	}
}

func (l *loop) run(ctx context.Context) error {
	if l.cfg = l.backend.config(); l.cfg == nil {
		return errors.New("amd: Watch came before Configure")
	}
	defer l.close()
	for {
		now := time.Now()
		l.begin(ctx, now)
		l.judge(now)
		if l.changed {
			l.publish()
		}
		l.answer()
		wake := time.NewTimer(l.pause(now))
		select {
		case <-ctx.Done():
			wake.Stop()
			return ctx.Err()
		case <-l.out.Reconfigured():
			l.reconfigure()
		case result := <-l.results:
			result()
		case event, ok := <-l.kernel.Events():
			l.told(event, ok)
		case ask := <-l.backend.asks:
			ask(l)
		case <-wake.C:
		}
		wake.Stop()
		l.out.Beat()
	}
}

// post has the loop run a function. It is false if the loop has ended.
func (l *loop) post(result func()) bool {
	select {
	case l.results <- result:
		return true
	case <-l.ended:
		return false
	}
}

// begin begins all that is due.
func (l *loop) begin(ctx context.Context, now time.Time) {
	if l.looking.IsZero() && !now.Before(l.next()) {
		l.look(now)
	}
	for _, known := range l.roster.cards {
		l.count(known, now)
	}
	l.listen(now)
	l.consult(ctx, now)
}

// full is when the next look at everything is.
func (l *loop) full() time.Time {
	if l.wanted.IsZero() {
		return l.due
	}
	return earlier(l.due, l.wanted)
}

// next is when the next look is, be it at KFD's generation alone.
func (l *loop) next() time.Time { return earlier(l.full(), l.polled.Add(l.cfg.poll)) }

// pause is how long nothing has to be done.
func (l *loop) pause(now time.Time) time.Duration {
	until := now.Add(l.out.Pace())
	if l.looking.IsZero() {
		until = earlier(until, l.next())
	} else if hung := l.looking.Add(hangs); hung.After(now) {
		until = earlier(until, hung)
	}
	for _, known := range l.roster.cards {
		if turn := known.turns(now); !turn.IsZero() {
			until = earlier(until, turn)
		}
		if known.counts.reading.IsZero() && !known.stray {
			until = earlier(until, known.counts.due)
		}
	}
	for _, h := range l.hearings {
		if !h.retry.IsZero() {
			until = earlier(until, h.retry)
		}
	}
	if l.cfg.health.Exporter != "" && !l.asking {
		until = earlier(until, l.opinions)
	}
	return max(until.Sub(now), 0)
}

// look begins a look: at everything if it is time for that, else only if KFD has
// counted a change.
func (l *loop) look(now time.Time) {
	l.looking, l.polled = now, now
	quick := now.Before(l.full())
	if !quick {
		l.wanted, l.due = time.Time{}, now.Add(l.cfg.rescan)
		l.kernel.Subscribe(l.cfg.poll)
	}
	cfg, last := l.cfg, l.last
	var known []gpu.GPU
	for _, k := range l.roster.cards {
		known = append(known, k.gpu)
	}
	go func() {
		if quick && last.unchanged(cfg.host.Sysfs) {
			l.post(l.looked)
			return
		}
		found := l.backend.gather(cfg, known)
		l.post(func() {
			l.looked()
			l.take(found)
		})
	}()
}

// looked notes the end of a look.
func (l *loop) looked() {
	l.looking = time.Time{}
	l.hung, l.changed = false, l.changed || l.hung
}

// take takes in what a look found.
func (l *loop) take(found look) {
	now := time.Now()
	if found.cfg != l.cfg {
		l.wanted = now // it went by older settings
		return
	}
	if l.doubtful(found) {
		l.wanted = now.Add(settle)
		return
	}
	l.due = now.Add(l.patience(found))
	l.last, l.suspect, l.changed = found, "", true
	if found.err == nil || !l.failed(found) {
		l.roster.take(found, now)
	}
}

// failed reports whether a look says nothing of what there is, so that what was known
// stays.
func (l *loop) failed(found look) bool {
	return found.err != nil && !found.driverAway()
}

// doubtful reports whether a look may have seen half of a change: the kernel takes
// all of KFD's nodes away and makes them again whenever one GPU comes or goes. A look
// that lacks a GPU, or has something to complain of that the one before had not, is
// believed when the next one says the same.
func (l *loop) doubtful(found look) bool {
	if found.inventory.Unsettled {
		if l.unsettled++; l.unsettled == restless {
			l.changed = true
		}
		l.suspect = ""
		return true
	}
	l.unsettled = 0
	before := map[string]bool{}
	for _, sentence := range l.last.sentences() {
		before[sentence] = true
	}
	doubt := slices.ContainsFunc(found.sentences(), func(sentence string) bool { return !before[sentence] })
	present := map[string]bool{}
	for _, g := range found.inventory.GPUs {
		present[g.ID] = true
	}
	for id, known := range l.roster.cards {
		doubt = doubt || !present[id] && known.absent == nil
	}
	if identity := found.identity(); doubt && identity != l.suspect && l.doubts < restless {
		l.suspect = identity
		l.doubts++
		return true
	}
	l.doubts = 0
	return false
}

// patience is how long it is until the look after one that found this. As long as
// something is missing the looks are more frequent at first.
func (l *loop) patience(found look) time.Duration {
	missing := found.err != nil && !found.driverAway()
	for _, given := range found.given {
		missing = missing || given.fault != nil
	}
	for _, p := range found.inventory.Problems {
		missing = missing || p.Lost
	}
	if !missing {
		l.incomplete = 0
		return l.cfg.rescan
	}
	pause := retryFirst << min(l.incomplete, 10)
	l.incomplete++
	return min(pause, l.cfg.rescan)
}

// judge sees whether the health of a card is another now.
func (l *loop) judge(now time.Time) {
	for id, known := range l.roster.cards {
		health := known.health(l.cfg, now)
		if proto.Equal(health, known.said) {
			continue
		}
		switch {
		case isFault(health):
			known.fresh = known.fresh && health.GetRecovery() == sdk.RecoverySelf
			l.backend.log.Warn("a GPU has a fault", "device", id, "code", health.GetCode(), "message", health.GetMessage())
		case isFault(known.said):
			l.backend.log.Info("the fault of a GPU is over", "device", id, "code", known.said.GetCode())
		}
		known.said, l.changed = health, true
	}
	if !l.hung && !l.looking.IsZero() && now.Sub(l.looking) >= hangs {
		l.hung, l.changed = true, true
	}
}

// reconfigure goes by new settings.
func (l *loop) reconfigure() {
	cfg := l.backend.config()
	if cfg == l.cfg {
		return // only the pace is another
	}
	now := time.Now()
	l.cfg, l.due, l.suspect, l.opinions, l.changed = cfg, now, "", now, true
	for _, known := range l.roster.cards {
		known.counts.due = now
		known.give(cfg)
		if cfg.health.Exporter == "" {
			known.bad = ""
		}
	}
	if cfg.health.Exporter == "" {
		l.mute = ""
	}
}

// publish tells the core what is known.
func (l *loop) publish() {
	problems := l.last.sentences()
	switch {
	case l.hung:
		problems = append(problems, fmt.Sprintf(
			"looking for GPUs has not come to an end since %s, so those that come or go are not seen: the driver hangs, see the kernel's log",
			l.looking.UTC().Format(time.RFC3339)))
	case l.unsettled >= restless:
		problems = append(problems, "the GPUs of this node change each time while they are looked at, so those that come or go are not listed yet")
	case l.last.began.IsZero() || !l.published && l.roster.unread():
		return // until the first look, and the first reading of all counters
	}
	if l.mute != "" {
		problems = append(problems, "what AMD's device metrics exporter says of the GPUs is not known, all else is: "+l.mute)
	}
	l.changed, l.published = false, true
	devices, more := l.listing().devices(l.roster)
	l.out.Publish(devices, append(problems, more...)...)
}

// close ends what was started. What hangs ends by itself.
func (l *loop) close() {
	close(l.ended)
	l.kernel.Close()
	for _, h := range l.hearings {
		h.close()
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
