package fpga

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// loop looks after the FPGAs. It never waits for hardware: what does runs beside it, and
// hands in a function that the loop runs.
type loop struct {
	backend *Backend
	out     *sdk.Reporter
	cfg     *config
	readers []*reader
	roster  *roster
	// directory is that of bitstreams.
	directory directory
	results   chan func()
	ended     chan struct{}
	// kernel tells of changes.
	kernel *uevent.Ear
	// changed says that there is something to publish, published that something was.
	changed, published bool
	// waiters wait for what the next look finds.
	waiters []*waiter
}

func newLoop(b *Backend, out *sdk.Reporter) *loop {
	return &loop{
		backend: b, out: out, roster: newRoster(), results: make(chan func()), ended: make(chan struct{}),
		kernel: uevent.NewEar(b.log, b.seams.uevents, concerns),
	}
}

func (l *loop) run(ctx context.Context) error {
	if l.backend.config() == nil {
		return errors.New("fpga: Watch came before Configure")
	}
	l.reconfigure()
	defer l.close()
	for {
		now := time.Now()
		l.begin(now)
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
func (l *loop) begin(now time.Time) {
	for _, r := range l.readers {
		if r.looking.IsZero() && !now.Before(r.next()) {
			l.look(r, now)
		}
	}
	for _, known := range l.roster.cards {
		l.sense(known, now)
	}
	l.inspect(now)
}

// pause is how long nothing has to be done.
func (l *loop) pause(now time.Time) time.Duration {
	until := now.Add(l.out.Pace())
	if turn := l.directory.turns(); !turn.IsZero() {
		until = earlier(until, turn)
	}
	for _, r := range l.readers {
		if r.looking.IsZero() {
			until = earlier(until, r.next())
		} else if hung := r.looking.Add(hangs); hung.After(now) {
			until = earlier(until, hung)
		}
	}
	for _, known := range l.roster.cards {
		if l.cfg.senses() && known.absent == nil && known.sensing.since.IsZero() {
			until = earlier(until, known.sensing.due)
		}
		for _, region := range known.regions {
			if turn := region.turns(now); !turn.IsZero() {
				until = earlier(until, turn)
			}
		}
	}
	return max(until.Sub(now), 0)
}

// judge sees whether the health of a region is another now.
func (l *loop) judge(now time.Time) {
	for _, r := range l.readers {
		if !r.hung && !r.looking.IsZero() && now.Sub(r.looking) >= hangs {
			r.hung, l.changed = true, true
		}
	}
	for _, known := range l.roster.cards {
		for id, region := range known.regions {
			if region.quiet() {
				continue
			}
			health := l.health(region, now)
			if proto.Equal(health, region.said) {
				continue
			}
			switch {
			case isFault(health):
				if health.GetRecovery() > sdk.RecoverySelf {
					region.fresh = false
				}
				l.backend.log.Warn("an FPGA has a fault", "device", id, "code", health.GetCode(), "message", health.GetMessage())
			case isFault(region.said):
				l.backend.log.Info("the fault of an FPGA is over", "device", id, "code", region.said.GetCode())
			}
			region.said, l.changed = health, true
		}
	}
}

// reconfigure goes by new settings.
func (l *loop) reconfigure() {
	cfg := l.backend.config()
	if cfg == l.cfg {
		return // only the pace is another
	}
	now := time.Now()
	l.cfg, l.changed = cfg, true
	before := l.readers
	l.readers = nil
	for rank, d := range l.backend.seams.drivers(cfg) {
		i := slices.IndexFunc(before, func(r *reader) bool { return r.driver.Name() == d.Name() })
		if i < 0 {
			l.readers = append(l.readers, &reader{driver: d, rank: rank})
			continue
		}
		r := before[i]
		r.driver, r.rank, r.due, r.suspect = d, rank, now, ""
		l.readers = append(l.readers, r)
	}
	for _, r := range before {
		if !slices.Contains(l.readers, r) {
			l.roster.forget(r)
		}
	}
	for _, known := range l.roster.cards {
		known.sensing.due = now
	}
}

// publish tells the core what is known, as soon as each driver was read once.
func (l *loop) publish() {
	problems := l.directory.problems()
	for _, r := range l.readers {
		if !l.published && !r.answered() {
			return
		}
		problems = append(problems, r.sentences()...)
	}
	l.changed, l.published = false, true
	devices, more := l.listing()
	l.out.Publish(devices, append(problems, more...)...)
}

// close ends what was started. What hangs ends by itself.
func (l *loop) close() {
	close(l.ended)
	l.kernel.Close()
}

// concerns reports whether an event of the kernel may be about an FPGA or a driver of
// one. The classes of Linux's FPGA subsystem are fpga_region, fpga_manager and
// fpga_bridge; the devices of DFL are on a bus of their own.
func concerns(e uevent.Event) bool {
	switch e.Subsystem {
	case "module":
		for _, name := range []string{"dfl", "fpga", "intel_fpga", "xocl", "xclmgmt", "amdxdna", "of_fpga", "zynq"} {
			if strings.HasPrefix(e.DevPath, "/module/"+name) {
				return true
			}
		}
	case "pci":
		class, err := strconv.ParseUint(e.Properties["PCI_CLASS"], 16, 32)
		vendor, _, _ := strings.Cut(e.Properties["PCI_ID"], ":")
		return err == nil && class>>16 == pci.ProcessingAccelerator || slices.Contains([]string{"10EE", "13FE", "1D0F", "3475"}, vendor)
	case "drm":
		return e.Action != uevent.Change // which comes with every monitor
	case "fpga", "fpga_region", "fpga_manager", "fpga_bridge", "dfl":
		return true
	}
	return false
}

// told takes what the kernel tells. It does not say what there is now, so all that
// follows is a look, soon.
func (l *loop) told(e uevent.Event, ok bool) {
	l.kernel.Hear(e, ok)
	now := time.Now()
	for _, r := range l.readers {
		r.want(now)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
