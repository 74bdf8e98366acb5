package fpga

import (
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// busyLimit is how long a region may be in reset, or be programmed by somebody else,
// before it is taken to hang.
const busyLimit = 2 * time.Minute

// health is what is said of a region.
func (l *loop) health(r *region, now time.Time) *sdk.Health {
	own := sdk.Graver(l.taken(r.now.Faults), l.reset(r, now))
	// Of equal faults the first counts: what is being reset tells little.
	worst := r.tasked()
	for _, found := range []*sdk.Health{r.of.absent, r.missing, own, l.function(r), l.board(r)} {
		worst = sdk.Graver(worst, found)
	}
	r.own = r.own || own.GetRecovery() > sdk.RecoverySelf
	by := r.of.by
	switch {
	case worst != nil:
		return worst
	case by.hung:
		return sdk.Unknown(fmt.Sprintf("reading it has not come to an end since %s: the driver hangs, see the kernel's log",
			by.looking.UTC().Format(time.RFC3339)))
	case r.fresh:
		return sdk.Recovered()
	}
	return sdk.Healthy()
}

// tasked is the fault of a region that is being reset, or whose programming was
// abandoned: what the kernel does cannot always be ended.
func (r *region) tasked() *sdk.Health {
	switch t := r.task; {
	case t == nil:
		return nil
	case t.reset:
		return sdk.Fault("resetting", sdk.RecoverySelf, "it is being reset: what ran on it is lost")
	case t.abandoned:
		return sdk.Fault("programming", sdk.RecoverySelf, fmt.Sprintf(
			"%s since %s, which took longer than the start of a container may: it can be used when that is over; if it does not end, see the kernel's log",
			t.what, t.since.UTC().Format(time.RFC3339)))
	}
	return nil
}

// reset is the fault of a region that somebody else resets or programs.
func (l *loop) reset(r *region, now time.Time) *sdk.Health {
	switch {
	case r.busy.IsZero():
		return nil
	case r.program != nil && r.program.failed != nil:
		return sdk.Fault("programming-failed", sdk.RecoveryReset, fmt.Sprintf(
			"it is in reset since programming %s failed: %v", r.program.name, r.program.failed))
	case now.Before(r.busy.Add(busyLimit)):
		return sdk.Fault("resetting", sdk.RecoverySelf, "it is in reset, or is being programmed, and comes back by itself")
	}
	return sdk.Fault("reset-failed", sdk.RecoveryReset, fmt.Sprintf(
		"it is in reset, or is being programmed, since %s, and does not come back by itself: see the kernel's log, reset it again, or reboot the node",
		r.busy.UTC().Format(time.RFC3339)))
}

// function is the fault of a region that is listed by its function and has none, unless
// a container can have one put into it.
func (l *loop) function(r *region) *sdk.Health {
	if l.cfg.classOf(r.known) != classAF || r.known.State != driver.Unloaded || l.cfg.programs(r.known) {
		return nil
	}
	if r.lost != nil {
		return sdk.Fault("function-lost", sdk.RecoverySelf, fmt.Sprintf(
			"the accelerator function %s is not loaded any more: program it again, or see the kernel's log for what happened to it", r.lost.Function))
	}
	return sdk.Fault("no-function", sdk.RecoverySelf,
		"no accelerator function is loaded: program one, have containers do so (bitstreams), or list the region by its interface (mode region)")
}

// doubts are what an operator must know of a region that is no fault of it: a container
// can have it programmed.
func (l *loop) doubts(r *region) []string {
	switch {
	case r.said.GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN:
		return []string{r.known.ID + ": how the FPGA is cannot be told now, so it stays as it was: " + r.said.GetMessage()}
	case r.program != nil && r.program.failed != nil && r.busy.IsZero():
		return []string{fmt.Sprintf("%s: programming %s failed, and until it is programmed again nobody knows what it has, whatever ID it shows: %v",
			r.known.ID, r.program.name, r.program.failed)}
	case r.lost != nil && l.cfg.classOf(r.known) == classAF && l.cfg.programs(r.known):
		return []string{fmt.Sprintf("%s: the accelerator function %s is not loaded any more, so the device is in no resource by the name %s: "+
			"containers that ask for a file can use it; for what happened to the function see the kernel's log", r.known.ID, r.lost.Function, r.lost.Loaded)}
	}
	return nil
}

// board is the fault of what the region shares with others: its card, and the functions
// that manage the board.
func (l *loop) board(r *region) *sdk.Health {
	worst := l.shared(r.of)
	for _, known := range l.roster.sorted() {
		if known != r.of && known.by == r.of.by && known.absent == nil && known.card.Board == r.of.card.Board && !known.card.Virtual {
			worst = sdk.Graver(worst, l.shared(known))
		}
	}
	return worst
}

// shared is the fault of a card.
func (l *loop) shared(k *record) *sdk.Health {
	worst := l.taken(k.card.Faults)
	if l.cfg.Health.Alarms == fault && l.cfg.senses() && k.absent == nil {
		worst = sdk.Graver(worst, l.taken(k.sensing.last.Faults))
	}
	return worst
}

// taken is the gravest of faults that settings do not ignore; nil if there is none.
func (l *loop) taken(faults []driver.Fault) *sdk.Health {
	var worst *sdk.Health
	for _, f := range faults {
		if !l.cfg.ignores(f) {
			worst = sdk.Graver(worst, sdk.Fault(f.Code, f.Recovery, f.Text))
		}
	}
	return worst
}

// quiet reports whether nothing is said of a region for now: it is being programmed for
// a container, which waits for that.
func (r *region) quiet() bool {
	return r.task != nil && !r.task.reset && !r.task.abandoned && r.said != nil
}

// turns is when the health may be another though nothing is heard; zero for never.
func (r *region) turns(now time.Time) time.Time {
	if at := r.busy.Add(busyLimit); !r.busy.IsZero() && at.After(now) {
		return at
	}
	return time.Time{}
}

// programs reports whether containers can have a file put into a region.
func (s *settings) programs(r driver.Region) bool { return s.Bitstreams != "" && r.Programmable }

func isFault(h *sdk.Health) bool { return h.GetRecovery() != 0 }
