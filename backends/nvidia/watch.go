package nvidia

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

const (
	// retryFirst and retryLast bound the pause before the driver is opened again;
	// it doubles.
	retryFirst, retryLast = time.Second, 30 * time.Second
	// exitRestart is the exit code of a process that must be started again.
	exitRestart = 3
	// filesHang is how long a scan may read files, such as those of sysfs, before heartbeats
	// stop.
	filesHang = 5 * time.Second
	// othersAfter is how soon after an event of one GPU the others are asked too: what
	// happened to them may have had no event.
	othersAfter = time.Second
	// pendingLimit bounds the events that wait for a look at their GPUs.
	pendingLimit = 4096
	// vendorNVIDIA, the classes that GPUs have on the PCI bus, and the kernel's name of
	// NVIDIA's driver.
	vendorNVIDIA             = 0x10de
	driverNVIDIA             = "nvidia"
	classVGA, class3D uint16 = 0x0300, 0x0302
)

// loop looks after the GPUs. Reading takes as long as a sick driver wants, so it
// is done beside the loop, one look at a time; the loop itself never waits for the
// driver.
type loop struct {
	backend *Backend
	out     *sdk.Reporter
	cfg     *config
	driver  *driver.Driver
	roster  *roster
	links   []driver.Link
	say     versions
	// made is what containers get, as it was made last.
	made made
	mps  *mps.Supervisor

	stream *driver.Stream
	// heard are the GPUs that there were when stream began.
	heard []string
	// pending are events that no look has followed yet.
	pending []driver.Event
	looks   chan look
	looking bool
	// files is when a look began to read files, in nanoseconds since 1970; 0 while none
	// does. Calls of NVML have limits of their own, in package driver.
	files atomic.Int64
	// opened are the options that driver was made with.
	opened driver.Options
	// due is when the next look is, though nothing happens, others when one is at the
	// health of all GPUs after an event, wanted when one is at everything because
	// something changed; zero for never. The last of those began at last, but for
	// those that were at health alone.
	due, others, wanted, last time.Time
	// failures are looks, one after another, that found no driver; incomplete those
	// that found something missing that containers need.
	failures, incomplete int
	// kernel has the events of the kernel.
	kernel *uevent.Subscription
	// renew says that the driver must be opened anew to see which GPUs there are;
	// mismatched are the GPUs that only one of the kernel and NVML listed when the driver
	// was last opened again.
	renew      bool
	mismatched []mismatch
	// away is why the driver cannot be asked; nil if it can.
	away error
	// unloaded says that the driver was not there since the last look.
	unloaded bool
	// held is who has taken the driver: there is no look meanwhile. Lent is the same,
	// until the first look after it.
	held, lent *hold
	// waiters wait for what the next look finds.
	waiters []*waiter
}

func newLoop(b *Backend, out *sdk.Reporter) *loop {
	return &loop{
		backend: b, out: out, roster: newRoster(), looks: make(chan look, 1),
		mps:    mps.NewSupervisor(b.log, mps.DefaultTiming()),
		kernel: uevent.NewSubscription(b.log, b.uevents, concerns),
	}
}

func (l *loop) run(ctx context.Context) error {
	if l.cfg = l.backend.config(); l.cfg == nil {
		return errors.New("nvidia: Watch came before Configure")
	}
	l.driver, l.opened = l.backend.open(l.cfg.driver), l.cfg.driver
	defer l.close()
	for {
		if !l.looking && l.held == nil && (len(l.pending) > 0 || !time.Now().Before(l.next())) {
			l.look(ctx)
		}
		wake := time.NewTimer(l.pause())
		select {
		case <-ctx.Done():
			wake.Stop()
			return ctx.Err()
		case <-l.out.Reconfigured():
			l.reconfigure()
		case found := <-l.looks:
			l.take(found)
		case event, ok := <-l.events():
			l.hear(event, ok)
		case event, ok := <-l.kernel.Events():
			l.told(event, ok)
		case ask := <-l.backend.asks:
			ask(l)
		case <-l.mps.Changed():
			l.publish()
		case <-wake.C:
		}
		wake.Stop()
		if since := l.files.Load(); since == 0 || time.Since(time.Unix(0, since)) < filesHang {
			l.out.Beat()
		}
	}
}

// pause is how long nothing has to be done.
func (l *loop) pause() time.Duration {
	if l.looking || l.held != nil {
		return l.out.Pace()
	}
	return max(min(l.out.Pace(), time.Until(l.next())), 0)
}

func (l *loop) events() <-chan driver.Event {
	if l.stream == nil {
		return nil
	}
	return l.stream.Events()
}

// hear keeps an event until a look has followed it.
func (l *loop) hear(event driver.Event, ok bool) {
	if known := l.roster.gpus[l.concerned(event)]; ok && known != nil && event.Type == driver.EventXID {
		known.xids.add(event.XID)
	}
	switch {
	case !ok:
		l.stream = nil
		l.due = time.Now()
	case event.Type == driver.EventBroken:
		l.backend.log.Warn("no events from the driver, the GPUs are asked now and then", "every", l.cfg.rescan, "error", event.Err)
	case event.Type == driver.EventMIG:
		l.backend.log.Debug("the MIG devices of a GPU change", "gpu", event.GPU)
		l.change()
	case event.Type == driver.EventMended:
		l.backend.log.Info("events from the driver come again")
		l.due = time.Now()
	case len(l.pending) < pendingLimit:
		l.backend.log.Debug("event", "type", string(event.Type), "gpu", event.GPU, "xid", event.XID)
		l.pending = append(l.pending, event)
	}
}

// concerned is the UUID of the GPU that an event is of, if it is known.
func (l *loop) concerned(event driver.Event) string {
	if l.roster.gpus[event.GPU] != nil {
		return event.GPU
	}
	return l.roster.at(event.PCIBusID)
}

// look begins a look at all GPUs.
func (l *loop) look(ctx context.Context) {
	l.looking = true
	l.reopen()
	renew := l.renew
	if renew {
		l.renew, l.stream = false, nil // closed with the driver
	}
	cfg, d, listens, heard := l.cfg, l.driver, l.stream != nil, l.heard
	found := look{cfg: cfg, began: time.Now(), made: l.made, mismatched: l.mismatched}
	if found.quick = found.began.Before(l.whole()); found.quick {
		found.only = l.suspects()
	} else {
		l.wanted, l.last = time.Time{}, found.began
		l.kernel.Subscribe(cfg.rescan)
	}
	go func() {
		if renew {
			release(d)
		}
		found.err = d.Open(ctx)
		var begun *edits.Begun
		if found.err == nil && !found.quick {
			begun = cfg.maker.Begin(d.Version())
		}
		if found.err == nil {
			found.snapshot, found.err = d.Update(ctx, found.only)
		}
		if found.err == nil && (!listens || !slices.Equal(heard, uuids(found.snapshot))) {
			// What happens from now on is heard; what happened before is seen by the
			// next look, which follows at once.
			found.stream, found.err = d.Listen(ctx)
		}
		switch {
		case found.err == nil && found.quick && found.made.holds(cfg, found.snapshot):
		case found.err == nil:
			l.files.Store(time.Now().UnixNano())
			if begun == nil {
				begun = cfg.maker.Begin(found.snapshot.DriverVersion)
			}
			found.quick = false
			found.made = made{cfg, begun.Make(&found.snapshot), identities(found.snapshot)}
			found.mismatched = mismatches(cfg.host, found.snapshot, cfg.maker.MissingNode)
		case errors.Is(found.err, driver.ErrDriverGone):
			release(d)
		}
		if begun != nil {
			l.files.CompareAndSwap(0, time.Now().UnixNano())
			begun.Wait() // needed or not, nothing goes on when the look is over
		}
		l.files.Store(0)
		l.looks <- found
	}()
}

// take takes in what a look found.
func (l *loop) take(found look) {
	l.looking = false
	switch {
	case l.held != nil:
		close(l.held.granted)
	case l.lent != nil:
		close(l.lent.over)
		l.lent = nil
	}
	now := time.Now()
	if len(found.only) == 0 {
		l.others = time.Time{}
	} else if l.others.IsZero() {
		l.others = now.Add(othersAfter)
	}
	if found.stream != nil {
		l.listen(found.stream)
		l.heard, l.due = uuids(found.snapshot), now
	} else if !found.quick || found.err != nil {
		l.due = now.Add(l.patience(found))
	}
	if found.cfg != l.cfg {
		l.due = now // it went by older settings
		return
	}
	if found.err != nil {
		l.lose(found.err, now)
		l.publish()
		l.answer(found.began)
		return
	}
	reloaded := l.unloaded
	l.away, l.unloaded, l.failures = nil, false, 0
	settled := slices.Equal(found.mismatched, l.mismatched)
	if !settled {
		l.mismatched, l.renew, l.due = found.mismatched, len(found.mismatched) > 0, now
	}
	l.links, l.say = found.snapshot.Links, versions{found.snapshot.DriverVersion, found.snapshot.CUDAVersion}
	l.made = found.made
	l.roster.take(found.snapshot, now, l.cfg.host.Sysfs, identifier(l.cfg.host.Procfs))
	l.roster.overlooked(l.mismatched, settled)
	l.expect()
	l.roster.forget(l.cfg.host.Sysfs)
	for uuid, known := range l.roster.gpus {
		known.renew()
		if found.asked(uuid) {
			known.test(now, l.cfg.table)
		}
		if known.wasLost && known.gpu.Err == nil {
			l.due = earlier(l.due, now.Add(selfTestPause))
		}
		if reloaded && known.gpu.Err == nil {
			known.reload()
		}
		known.give(found.made.set)
	}
	l.forgive(found.began)
	l.judge(found)
	l.shareOut()
	l.publish()
	l.answer(found.began)
}

// lose notes that the driver cannot be asked.
func (l *loop) lose(err error, now time.Time) {
	if l.away == nil || l.away.Error() != err.Error() {
		l.backend.log.Info("the driver cannot be asked, trying again", "error", err)
	}
	l.away = err
	// A driver that only hung, say, has set up no GPU anew.
	l.unloaded = l.unloaded || errors.Is(err, driver.ErrDriverGone) || errors.Is(err, driver.ErrNoDriver) ||
		errors.Is(err, driver.ErrMismatch)
	if errors.Is(err, driver.ErrRestart) {
		l.backend.exit(exitRestart)
	}
	pause := min(retryFirst<<min(l.failures, 10), retryLast)
	l.failures++
	l.due = now.Add(pause/2 + rand.N(pause/2))
	if errors.Is(err, driver.ErrDriverGone) {
		l.stream = nil // closed with the driver
	}
}

// judge judges the events from before a look by what it found.
func (l *loop) judge(found look) {
	var later []driver.Event
	for _, event := range l.pending {
		uuid := l.concerned(event)
		if event.Time.After(found.began) || !found.asked(uuid) {
			later = append(later, event)
			continue
		}
		known := l.roster.gpus[uuid]
		if known == nil {
			continue // missed: the look itself was the answer
		}
		if note := known.heard(event, l.cfg.table); note != "" {
			l.backend.log.Info("an event that is no fault of the GPU", "gpu", known.gpu.UUID, "note", note)
		}
	}
	l.pending = later
}

// reconfigure goes by new settings.
func (l *loop) reconfigure() {
	cfg := l.backend.config()
	if cfg == l.cfg {
		return // only the pace is another
	}
	l.cfg, l.due = cfg, time.Now()
	l.shareOut()
	l.publish()
}

// publish tells the core what is known.
func (l *loop) publish() {
	if l.away != nil && len(l.roster.gpus) == 0 {
		l.out.Publish(nil, l.absence()...)
		return
	}
	devices, problems := l.listing().devices(l.roster)
	l.out.Publish(devices, problems...)
}

// listing is what devices are made with now.
func (l *loop) listing() *listing {
	return &listing{
		strategy: l.cfg.strategy, versions: l.say, table: l.cfg.table, away: l.away, mps: l.sharing(),
		links: linksOf(l.links), groups: groupsOf(l.links), problems: l.made.problems(),
		prepared: l.cfg.prepare.wanted(),
	}
}

// absence says why a node that has NVIDIA's hardware lists none. A node without
// it has nothing to say.
func (l *loop) absence() []string {
	present, _ := pci.List(l.cfg.host.Sysfs, vendorNVIDIA, classVGA, class3D) // those that can be read will do
	if len(present) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d NVIDIA GPUs are on the PCI bus (the first at %s), but the driver cannot be asked: %v",
		len(present), present[0].Address, l.away)}
}

// close ends what was started. It does not wait for the driver: a wait for events
// lasts for seconds, and the end of the process lets go of it anyway.
func (l *loop) close() {
	l.mps.Close()
	l.kernel.Close()
	if l.looking {
		<-l.looks // bounded, and cut short by the loop's context
	}
	l.backend.releases.Go(func() { release(l.driver) })
}
