package supervisor

import (
	"bytes"
	"fmt"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// handle takes an event of an instance. Events of one that was dropped meanwhile
// change nothing but the list of those ending.
func (u *unit) handle(event any) {
	switch e := event.(type) {
	case stageEvent:
		if e.from == u.candidate {
			u.stage = e.state
		}
	case inventoryEvent:
		switch e.from {
		case u.candidate:
			u.promote(e.inventory)
		case u.current:
			u.report(e.inventory)
		}
	case configuredEvent:
		if e.from == u.current {
			u.configured(e)
		}
	case endedEvent:
		u.ended(e.from, e.failure)
	case stuckEvent:
		u.ending[e.from] = true
		pid := e.from.pid()
		u.note(fmt.Errorf("process %d does not die of SIGKILL: %s; the backend is not started again before it is gone", pid, whyAlive("/proc", pid)))
	case goneEvent:
		delete(u.ending, e.from)
	}
}

// promote makes the candidate the current process, with its first inventory.
func (u *unit) promote(first *backendv1.Inventory) {
	next, before := u.candidate, u.current
	u.candidate = nil
	next.desc.Needs = next.desc.Needs.Join(next.needs)
	u.sup.sink.Started(u.name, next.desc)
	u.announced = true
	if err := u.sup.sink.Report(u.name, first); err != nil {
		f := fail(violated, "its first inventory is refused: %w", err)
		u.drop(next, f)
		u.failed(next, f)
		u.fallBack(before, f)
		return
	}
	next.last = first
	u.serve(next)
	u.offered, u.accepted, u.revision = next.spec.Settings, next.configured, next.revision
	next.spec.Settings = next.configured
	u.description, u.protocol = next.desc, next.protocol
	u.schema = next.schemaBad
	u.refuse(next.refused)
	u.log.Info("backend runs", "pid", next.pid(), "version", next.desc.Version, "vendor", next.desc.Vendor)
	if before != nil {
		u.ending[before] = false
		go before.retire()
	}
}

// fallBack gives the sink back the process that was to be replaced by one whose
// inventory is refused.
func (u *unit) fallBack(before *instance, reason error) {
	if before != nil {
		u.sup.sink.Started(u.name, before.desc)
		if err := u.sup.sink.Report(u.name, before.last); err == nil {
			return
		}
	}
	u.lose(reason)
}

// report hands an inventory of the current process to the sink.
func (u *unit) report(wire *backendv1.Inventory) {
	if err := u.sup.sink.Report(u.name, wire); err != nil {
		i, f := u.current, fail(violated, "its inventory is refused: %w", err)
		u.lose(f)
		u.failed(i, f)
		return
	}
	u.current.last = wire
}

// configured takes note of what the running process made of new settings.
func (u *unit) configured(e configuredEvent) {
	u.schema = e.schema
	if e.err == nil {
		e.from.spec.Settings = e.settings
		u.accepted, u.revision = e.settings, e.revision
		if needs := u.description.Needs.Join(e.needs); !needs.Equal(u.description.Needs) {
			u.description.Needs = needs
			u.sup.sink.Described(u.name, u.description)
		}
	}
	if !bytes.Equal(e.settings, u.offered) {
		return // newer ones are on their way
	}
	u.refuse(e.err)
}

// refuse takes note that the newest settings were refused; nil: they were not.
func (u *unit) refuse(err error) {
	u.refused = err
	if err != nil {
		u.didFail = true
		u.note(fmt.Errorf("%w; the earlier settings stay in force", err))
		u.log.Warn("new settings are refused, the earlier ones stay in force", "error", err)
	}
}

// ended takes note that an instance ended by itself.
func (u *unit) ended(i *instance, f *failure) {
	switch i {
	case u.current:
		u.lose(f.err)
		u.failed(i, f)
	case u.candidate:
		u.candidate = nil
		u.ending[i] = false
		u.failed(i, f)
	}
}

// failed decides how long to wait after a failure.
func (u *unit) failed(i *instance, f *failure) {
	now, t := time.Now(), &u.sup.timing
	if !i.readyAt.IsZero() && now.Sub(i.readyAt) >= t.Stable {
		u.breaker.reset()
	}
	u.didFail = true
	var pause time.Duration
	switch {
	case f.kind != stopped && isShortage(f.err):
		pause, u.pause = t.spread(min(shortagePauses*t.Backoff, t.BackoffLimit)), Backoff
	case f.kind == misconfigured:
		pause, u.pause = t.spread(t.Misconfigured), Misconfigured
	case f.kind == unavailable:
		pause, u.pause = t.spread(t.BackoffLimit), Unavailable
	default:
		weight := 1
		if f.kind == violated {
			weight = u.breaker.grave()
		}
		u.crashed(now)
		var quarantined bool
		pause, quarantined = u.breaker.fail(now, weight)
		if u.pause = Backoff; quarantined {
			u.pause = Quarantined
		}
	}
	u.retryAt = now.Add(pause)
	u.note(f.err)
	u.log.Warn("backend failed", "state", string(u.pause), "retry_in", pause.Round(time.Millisecond), "error", f.err)
}

// note keeps an error for the status.
func (u *unit) note(err error) {
	u.lastError, u.lastErrorAt = printable(err.Error(), 1024), time.Now()
}
