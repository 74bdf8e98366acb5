package engine

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Watch is the loop, for [sdk.Backend]. It returns when ctx ends, and does not wait for
// hardware that hangs.
func (e *Engine) Watch(ctx context.Context, out *sdk.Reporter) error {
	if e.configured() == nil {
		return errors.New("watch was called before Configure")
	}
	return newLoop(e, out).run(ctx)
}

func newLoop(e *Engine, out *sdk.Reporter) *loop {
	return &loop{
		Engine: e, out: out, roster: newRoster(e.options), results: make(chan func()), ended: make(chan struct{}),
		kernel: uevent.NewSubscription(e.options.Log, e.options.Listen, e.options.Concerns), endMonitor: func() {},
	}
}

func (l *loop) run(ctx context.Context) error {
	defer l.close()
	l.reconfigure(ctx)
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
			l.reconfigure(ctx)
		case result := <-l.results:
			result()
		case event, ok := <-l.kernel.Events():
			l.uevent(event, ok)
		case ask := <-l.asks:
			ask(l)
		case <-wake.C:
		}
		wake.Stop()
		l.out.Beat()
	}
}

// begin begins the scans, readings and checks whose time has come.
func (l *loop) begin(ctx context.Context, now time.Time) {
	for _, s := range l.sources {
		if s.scanning.IsZero() && s.exclusive == nil && !now.Before(s.next(l.set)) {
			l.scan(s, now)
		}
	}
	for _, known := range l.roster.units {
		l.sense(known, now)
	}
	for _, c := range l.checks {
		l.check(ctx, c, now)
	}
}

// pause returns the time until the loop has to do something.
func (l *loop) pause(now time.Time) time.Duration {
	until := now.Add(l.out.Pace())
	sooner := func(at time.Time) {
		if at.Before(until) {
			until = at
		}
	}
	running := func(since, next time.Time) {
		if since.IsZero() {
			sooner(next)
		} else if hung := since.Add(hangs); hung.After(now) {
			sooner(hung)
		}
	}
	for _, s := range l.sources {
		if s.exclusive == nil || !s.scanning.IsZero() {
			running(s.scanning, s.next(l.set))
		}
	}
	for _, c := range l.checks {
		running(c.since, c.nextRun)
	}
	for _, known := range l.roster.units {
		if l.set.Sensing > 0 && !known.Absent() {
			running(known.readings.since, known.readings.next)
		}
		if at := known.resetting.Add(busyLimit); !known.resetting.IsZero() && at.After(now) {
			sooner(at)
		}
		for _, d := range known.devices {
			if at := d.busy.Add(busyLimit); !d.busy.IsZero() && at.After(now) {
				sooner(at)
			}
			if d.awaited(now) {
				sooner(d.resetAt.Add(answerLimit))
			}
		}
	}
	return max(until.Sub(now), 0)
}

// judge updates the health of the devices.
func (l *loop) judge(now time.Time) {
	for _, s := range l.sources {
		if !s.hung && !s.scanning.IsZero() && now.Sub(s.scanning) >= hangs {
			s.hung, l.changed = true, true
		}
	}
	for _, known := range l.roster.units {
		for id, d := range known.devices {
			if d.programming() || d.reported == nil && known.unread(now) {
				continue
			}
			health := l.health(d, now)
			same := health == d.reported || proto.Equal(health, d.reported)
			// Readings of sensors that are not required may still be from before a reset.
			if isFault(health) && health.GetRecovery() > sdk.RecoverySelf && (!same || known.source.senses) {
				d.recovered = false
			}
			if same {
				continue
			}
			switch {
			case isFault(health):
				l.options.Log.Warn("device is unhealthy", "device", id, "code", health.GetCode(), "message", health.GetMessage())
			case isFault(d.reported):
				l.options.Log.Info("device is no longer unhealthy", "device", id, "code", d.reported.GetCode())
			}
			d.reported, l.changed = health, true
		}
	}
}

// reconfigure applies new settings. All drivers are scanned again.
func (l *loop) reconfigure(ctx context.Context) {
	set := l.configured()
	if set == l.set {
		return // only the pace changed
	}
	now := time.Now()
	l.set, l.changed = set, true
	l.endMonitor()
	if set.Monitor != nil {
		ctx, l.endMonitor = context.WithCancel(ctx)
		go set.Monitor(ctx)
	}
	before := l.sources
	l.sources = nil
	for rank, d := range set.Drivers {
		i := slices.IndexFunc(before, func(s *source) bool { return s.driver.Name() == d.Name() })
		if i < 0 {
			l.sources = append(l.sources, &source{driver: d, rank: rank})
			continue
		}
		s := before[i]
		s.driver, s.rank, s.periodic, s.candidate = d, rank, now, ""
		l.sources = append(l.sources, s)
	}
	for _, s := range before {
		if !slices.Contains(l.sources, s) {
			l.roster.forget(s)
		}
	}
	for _, known := range l.roster.units {
		known.readings.next = now
	}
	for _, s := range l.sources {
		_, senses := s.driver.(Senser)
		s.senses = senses && set.SensesRequired
	}
	checks := l.checks
	l.checks = nil
	for _, wanted := range set.Checks {
		i := slices.IndexFunc(checks, func(c *check) bool { return c.What == wanted.What })
		if i < 0 {
			l.checks = append(l.checks, &check{Check: wanted, nextRun: now})
			continue
		}
		checks[i].Check, checks[i].nextRun = wanted, now
		l.checks = append(l.checks, checks[i])
	}
}

// publish passes the inventory to the core, once each driver was scanned with the settings.
func (l *loop) publish() {
	var problems []string
	for _, c := range l.checks {
		problems = append(problems, c.problems()...)
	}
	for _, s := range l.sources {
		if !s.ready(l.set) {
			return
		}
		problems = append(problems, s.problems(l.options.Hardware)...)
	}
	if !l.published && l.roster.unread(time.Now()) {
		return
	}
	l.changed, l.published = false, true
	devices, unread, more := l.list()
	inventory := sdk.Inventory{Devices: devices, Unread: unread, Problems: append(problems, more...)}
	if labeler, ok := l.set.Vendor.(Labeler); ok {
		inventory.NodeLabels = labeler.NodeLabels(l.roster.sorted())
	}
	if divider, ok := l.set.Vendor.(Divider); ok {
		inventory.CounterSets = divider.CounterSets(l.roster.sorted())
	}
	l.out.PublishInventory(inventory)
}

// close ends what was started. What hangs ends on its own.
func (l *loop) close() {
	close(l.ended)
	l.endMonitor()
	l.kernel.Close()
}

// uevent has all drivers scanned soon: an event does not report the present state.
func (l *loop) uevent(e uevent.Event, ok bool) {
	v, reads := l.set.Vendor.(EventReader)
	if l.kernel.Accept(e, ok) {
		l.added(e)
		if reads {
			v.Uevent(e, Known{l})
		}
	}
	l.scanSoon()
}

// added notices that a PCI function that no scan missed was added: it was removed before, and is another
// card, or was set up again.
func (l *loop) added(e uevent.Event) {
	if e.Action != uevent.Add || !e.IsSetUp() || e.Subsystem != "pci" {
		return
	}
	for _, known := range l.roster.units {
		if at := known.Unit.PCI; at != nil && at.Address.String() == path.Base(e.DevPath) {
			known.EndReset()
		}
	}
}

// ListOnce returns the devices and problems of one scan of each driver, without a loop: for
// tests of vendors.
func ListOnce(o Options, set *Settings) ([]*sdk.Device, []string) {
	e := New(o)
	e.Configure(set)
	l := newLoop(e, nil)
	l.set = set
	var problems []string
	for rank, d := range set.Drivers {
		s := &source{driver: d, rank: rank, last: scan{Scan: d.Scan(nil), number: 1}}
		s.duplicates = l.roster.take(s, s.last, time.Now(), l.remember())
		problems = append(problems, s.problems(o.Hardware)...)
	}
	l.judge(time.Now())
	devices, _, more := l.list()
	return devices, append(problems, more...)
}
