package nvidia

import (
	"context"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

const (
	// strangeLimit is how long an event of an unknown GPU is kept: the scan that finds the GPU may be in progress.
	strangeLimit = 10 * time.Second
	// strangePause is the time until it is tried again.
	strangePause = 250 * time.Millisecond
)

// monitor receives NVML's events until ctx ends. It is the [engine.Settings.Monitor], and the only goroutine with events: it
// reads the GPUs of those that wait, once, and has the loop give reading and event to the memories of their units. A scan
// follows soon, as other GPUs may have changed without an event.
func (s source) monitor(ctx context.Context) {
	var waiting []driver.Event
	var retry <-chan time.Time
	for events := s.b.conn.events(); ; {
		var scan func(engine.Known)
		select {
		case <-ctx.Done():
			return
		case <-s.b.conn.subscribed:
			waiting, scan = s.drain(events, waiting, nil)
			if events = s.b.conn.events(); scan == nil {
				continue
			}
		case <-s.b.mps.Changed():
			scan = func(engine.Known) { /* list again */ }
		case <-retry:
			scan = engine.Known.ScanNow
		case e, ok := <-events:
			if !ok { // events may have been lost before it ended
				events, scan = nil, engine.Known.ScanNow
				break
			}
			var fault bool
			if fault, scan = s.sort(e, nil); fault {
				waiting = append(waiting, e)
			}
			waiting, scan = s.drain(events, waiting, scan)
		}
		// What was received is not lost when other settings apply meanwhile.
		if waiting = s.take(waiting); len(waiting) > 0 {
			scan, retry = engine.Known.ScanNow, time.After(strangePause)
		}
		if s.b.Do(s.b.conn.ended, scan) != nil {
			return
		}
	}
}

// drain receives what a stream has sent, and adds what may be a fault to waiting. It returns the scan that is necessary then.
func (s source) drain(events <-chan driver.Event, waiting []driver.Event, scan func(engine.Known)) ([]driver.Event, func(engine.Known)) {
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return waiting, scan
			}
			var fault bool
			if fault, scan = s.sort(e, scan); fault {
				waiting = append(waiting, e)
			}
		default:
			return waiting, scan
		}
	}
}

// sort reports whether an event may be a fault, and which scan is necessary after it and those before.
func (s source) sort(e driver.Event, before func(engine.Known)) (fault bool, scan func(engine.Known)) {
	switch e.Type {
	case driver.EventBroken:
		s.b.log.Warn("NVML's events cannot be received: until they can, the GPUs are scanned at the interval only", "error", e.Err)
	case driver.EventMIG:
		s.b.log.Debug("the MIG devices of a GPU change", "device", e.GPU)
	case driver.EventMended:
		s.b.log.Info("NVML's events are received again")
		return false, engine.Known.ScanNow
	case driver.EventMissed:
		return false, engine.Known.ScanNow
	default:
		s.b.log.Debug("event", "type", string(e.Type), "device", e.GPU, "xid", e.XID)
		fault = true
	}
	if before == nil {
		before = engine.Known.Scan
	}
	return fault, before
}

// take reads the GPUs of events, and gives both to the memories of their units. It returns the events of GPUs that are not
// known yet.
func (s source) take(events []driver.Event) (strange []driver.Event) {
	if len(events) == 0 {
		return nil
	}
	var uuids []string
	for _, e := range events {
		uuids = append(uuids, e.GPU)
	}
	began, number, loads := time.Now(), s.b.conn.begun.Add(1), s.b.conn.loads.Load()
	gpus, err := s.b.conn.driver.Load().Read(s.b.conn.ended, uuids...)
	if err != nil { // the table decides, and a scan finds what happened
		s.b.log.Debug("the GPUs of events cannot be read", "devices", uuids, "error", err)
	}
	_ = s.b.Do(s.b.conn.ended, func(known engine.Known) { // an error means that the loop has ended
		units := known.Units()
		for _, u := range units {
			for _, g := range gpus {
				if g.UUID != u.Unit.ID {
					continue
				}
				r := memoryOf(u, s.cfg).Next(g, s.cfg.host.Sysfs)
				r.Began, r.Number, r.Loads = began, number, loads
				u.Memory.(*memory).take(u, r, s.cfg) //nolint:forcetypeassert // memoryOf made it
			}
		}
		for _, e := range events {
			u := unitOf(units, e)
			if u == nil {
				if time.Since(e.Time) < strangeLimit {
					strange = append(strange, e)
				}
				continue
			}
			if note := memoryOf(u, s.cfg).Event(e, s.cfg.checks); note != "" {
				s.b.log.Info("the event is no fault of the GPU", "device", u.Unit.ID, "reason", note)
			}
		}
	})
	s.want(nil)
	return strange
}

// unitOf returns the unit of an event; nil if it is not known.
func unitOf(units []*engine.KnownUnit, e driver.Event) *engine.KnownUnit {
	for _, u := range units {
		if u.Unit.ID == e.GPU || e.GPU == "" && e.PCIBusID != "" && readingOf(u.Unit).PCIBusID == e.PCIBusID {
			return u
		}
	}
	return nil
}
