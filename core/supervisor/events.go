package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/text"
)

// handle processes an event of an instance. Events of an instance that was dropped
// meanwhile only update the list of ending ones.
func (b *backend) handle(event any) {
	switch e := event.(type) {
	case stageEvent:
		if e.from != b.candidate {
			return
		}
		b.stage = e.state
		b.checked(e.from)
		if e.state == Starting && b.failedBefore {
			b.failedBefore = false
			b.restarts++
		}
	case inventoryEvent:
		switch e.from {
		case b.candidate:
			b.promote(e.report)
		case b.current:
			b.report(e.report)
		}
	case configuredEvent:
		if e.from == b.current {
			b.configured(e)
		}
	case appearedEvent:
		if e.from == b.current {
			b.log.Info("files appeared that the backend may open, and its process cannot: it is replaced", "files", e.files)
			e.from.outdated = true
		}
	case endedEvent:
		b.ended(e.from, e.failure)
	case stuckEvent:
		b.ending[e.from] = true
		pid := e.from.pid()
		b.record(fmt.Errorf("process %d has not ended after SIGKILL: %s; the backend is not started again before it is gone", pid, plug.WhyAlive(pid)))
	case goneEvent:
		delete(b.ending, e.from)
	}
}

// promote makes the candidate the current process, with its first inventory.
func (b *backend) promote(first *inventory.Report) {
	next, before := b.candidate, b.current
	b.candidate = nil
	b.mismatchedSince = time.Time{}
	next.desc = next.rights.desc
	b.sup.sink.Started(b.name, next.desc)
	b.announced = true
	if err := b.sup.sink.Report(b.name, first); err != nil {
		f := fail(violated, "its first inventory is refused: %w", err)
		b.drop(next, f)
		b.failed(next, f)
		b.fallBack(before, f)
		return
	}
	next.last = first
	b.serve(next)
	b.offered, b.accepted, b.revision = next.spec.Settings, next.spec.Settings, next.revision
	b.description, b.protocol = next.desc, next.process.Protocol
	if bytes.Equal(b.accepted, b.spec.Settings) {
		b.refused = nil
	}
	b.log.Info("backend runs", "pid", next.pid(), "version", next.desc.Version, "vendor", next.desc.Vendor)
	if before != nil {
		b.ending[before] = false
		go before.retire(errReplaced)
	}
}

// fallBack reports the previous process to the sink again, because the inventory of its
// replacement was refused.
func (b *backend) fallBack(before *instance, reason error) {
	if before != nil {
		b.sup.sink.Started(b.name, before.desc)
		if err := b.sup.sink.Report(b.name, before.last); err == nil {
			return
		}
	}
	b.lose(reason)
}

// report passes an inventory of the current process to the sink.
func (b *backend) report(wire *inventory.Report) {
	if err := b.sup.sink.Report(b.name, wire); err != nil {
		i, f := b.current, fail(violated, "its inventory is refused: %w", err)
		b.lose(f)
		b.failed(i, f)
		return
	}
	b.current.last = wire
}

// configured records whether the running process accepted new settings.
func (b *backend) configured(e configuredEvent) {
	if e.err == nil {
		e.from.spec.Settings = e.settings
		b.accepted, b.revision = e.settings, e.revision
		e.from.unfit = nil
		if !slices.Equal(e.desc.Attributes, b.description.Attributes) {
			e.from.desc, b.description = e.desc, e.desc
			b.sup.sink.Described(b.name, e.desc)
		}
	}
	if !bytes.Equal(e.settings, b.offered) {
		return // newer ones were offered meanwhile
	}
	if errors.Is(e.err, errUnfit) {
		b.log.Info("the settings need other rights than the process has: it is replaced")
		e.from.unfit = e.settings
		return
	}
	if e.err != nil {
		b.unusable = e.settings
	}
	b.refuse(e.err)
}

// refuse records the refusal of the newest settings; nil if they were accepted.
func (b *backend) refuse(err error) {
	b.refused = err
	if err != nil {
		b.didFail = true
		b.record(fmt.Errorf("%w; the earlier settings stay in force", err))
		b.log.Warn("new settings are refused, the earlier ones stay in force", "error", err)
	}
}

// ended records that an instance ended on its own.
func (b *backend) ended(i *instance, f *failure) {
	switch i {
	case b.current:
		b.lose(f.err)
		b.failed(i, f)
	case b.candidate:
		b.candidate = nil
		b.ending[i] = false
		b.failed(i, f)
	}
}

// failed decides how long to wait after a failure.
func (b *backend) failed(i *instance, f *failure) {
	now, t := time.Now(), &b.sup.timing
	if !i.readyAt.IsZero() && now.Sub(i.readyAt) >= stableRun {
		b.breaker.stable()
	}
	if starved := errors.Is(f.err, plug.ErrStarved); !starved || !i.readyAt.IsZero() {
		b.starved = 0
	} else {
		b.starved++
	}
	var pause time.Duration
	switch {
	case f.cause == paused:
		b.checked(i) // reconcile pauses it
		return
	case f.cause != stopped && isShortage(f.err) && b.starved <= maxStarved:
		pause, b.pause = min(shortagePauses*t.Backoff, t.BackoffLimit), Backoff
	case f.cause == mismatched && b.upgrading(now):
		b.retryAt, b.pause = now.Add(backoff.Jitter(t.Backoff)), Checking
		b.log.Info("the program and its manifest do not belong together; both may be being replaced", "retry_in", t.Backoff, "error", f.err)
		return
	case f.cause == mismatched:
		pause, b.pause = t.BackoffLimit, Unavailable
	case f.cause == misconfigured && b.fallsBack(i):
		b.unusable, b.pause = i.spec.Settings, Checking
		b.refuse(f.err)
		return
	case f.cause == misconfigured:
		pause, b.pause = t.Misconfigured, Misconfigured
		if b.unusable = i.spec.Settings; b.current == nil {
			b.unusable = nil // the next try is with the newest
			if b.refused != nil && !bytes.Equal(i.spec.Settings, b.spec.Settings) {
				f.err = fmt.Errorf("%w; the earlier settings are refused, too: %w", b.refused, f.err)
			}
			b.refused = nil
		}
	case f.cause == unavailable:
		pause, b.pause = t.BackoffLimit, Unavailable
	default:
		b.failedBefore = true
		weight := 1
		if f.cause == violated {
			weight = b.breaker.grave()
		}
		var quarantined bool
		pause, quarantined = b.breaker.fail(now, weight)
		if b.pause = Backoff; quarantined {
			b.pause = Quarantined
		}
	}
	b.didFail = true
	b.retryAt = now.Add(backoff.Jitter(pause))
	b.record(f.err)
	b.log.Warn("backend failed", "state", string(b.pause), "retry_in", pause.Round(time.Millisecond), "error", f.err)
	if b.current == nil && b.pause != Backoff {
		b.sup.sink.Lost(b.name, f.err)
	}
}

// upgrading reports whether a program and a manifest that do not belong together may still be being replaced.
func (b *backend) upgrading(now time.Time) bool {
	if b.mismatchedSince.IsZero() {
		b.mismatchedSince = now
	}
	return now.Sub(b.mismatchedSince) < b.sup.timing.Upgrade
}

// fallsBack reports whether, after the refusal of an instance's settings, the backend can run with those that it accepted
// before.
func (b *backend) fallsBack(i *instance) bool {
	return b.current == nil && b.accepted != nil && !bytes.Equal(b.accepted, i.spec.Settings)
}

// maxMessage bounds a message that is made of several, in bytes.
const maxMessage = 1024

// record stores an error for the status.
func (b *backend) record(err error) {
	b.lastError, b.lastErrorAt = text.Shorten(err.Error(), maxMessage), time.Now()
}
