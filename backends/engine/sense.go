package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// sense begins to read the sensors of a unit if it is due. A unit whose reading hangs is
// not read again before that ends.
func (l *loop) sense(u *KnownUnit, now time.Time) {
	senser, ok := u.source.driver.(Senser)
	if !ok || l.set.Sensing == 0 || u.Absent() || !u.readings.since.IsZero() || now.Before(u.readings.next) {
		return
	}
	u.readings.since, u.readings.next = now, now.Add(l.set.Sensing)
	unit, number := u.Unit, u.readings.begin()
	go func() {
		senses := senser.Sense(unit, unit.ID)
		l.post(func() {
			u.readings.since = time.Time{}
			l.sensed(u, senses, number)
		})
	}()
}

func (r *readings) begin() (number uint64) {
	r.begun++
	return r.begun
}

// sensed takes over a reading of sensors. One that began before a reset shows what was
// before it, and is ignored.
func (l *loop) sensed(u *KnownUnit, s Senses, number uint64) {
	r := &u.readings
	r.returned = true
	if number <= r.ignored {
		return
	}
	if c, ok := l.set.Vendor.(Counter); ok {
		l.changed = c.Sensed(u, s.Vendor) || l.changed
	}
	u.Senses = s.Vendor
	if s.Unavailable {
		r.next = earlier(r.next, time.Now().Add(retryFirst))
		return
	}
	r.last = max(r.last, number)
	for _, d := range u.devices {
		d.recover()
	}
}

// unread reports whether the sensors, which are required, are being read for the first time.
func (u *KnownUnit) unread(now time.Time) bool {
	return u.source.senses && !u.Absent() && !u.readings.returned && !u.readings.hung(now)
}

// unread reports whether one of the units is.
func (r *roster) unread(now time.Time) bool {
	for _, known := range r.units {
		if known.unread(now) {
			return true
		}
	}
	return false
}

func (r readings) hung(now time.Time) bool { return !r.since.IsZero() && now.Sub(r.since) >= hangs }

// sample is a unit to measure.
type sample struct {
	unit string // its ID
	// measure returns telemetry; nil if the unit is absent or has none.
	measure func() []*sdk.Metric
	counted []*sdk.Metric
}

// Sample returns telemetry of all units, for [sdk.Sampler]. Metrics of a unit without
// devices have the ID of the first unit of its board that has some.
func (e *Engine) Sample(ctx context.Context) ([]*sdk.Metric, error) {
	units, err := sdk.InLoop(ctx, e.asks, (*loop).samples)
	if err != nil {
		return nil, err
	}
	var metrics []*sdk.Metric
	measured := make(chan []*sdk.Metric, len(units))
	waiting := 0
	for _, s := range units {
		metrics = append(metrics, s.counted...)
		if s.measure == nil {
			continue
		}
		leave, ok := e.measuring.try(s.unit)
		if !ok {
			continue
		}
		waiting++
		go func() {
			defer leave()
			measured <- s.measure()
		}()
	}
	values, err := sdk.Collect(ctx, e.options.Log, measured, waiting)
	if err != nil {
		return nil, fmt.Errorf("measure the %ss: %w", e.options.Hardware, err)
	}
	return append(metrics, values...), nil
}

func (l *loop) samples() []sample {
	first := map[string]string{} // by board
	for _, known := range l.roster.sorted() {
		if board := known.Unit.Board; len(known.devices) > 0 && first[board] == "" {
			first[board] = known.Unit.ID
		}
	}
	counter, counts := l.set.Vendor.(Counter)
	var all []sample
	for _, known := range l.roster.sorted() {
		s, device := sample{unit: known.Unit.ID}, known.Unit.ID
		if len(known.devices) == 0 {
			device = first[known.Unit.Board]
		}
		if device == "" {
			continue
		}
		if !known.Absent() {
			s.measure = l.measure(known, device)
		}
		if counts {
			s.counted = counter.Count(known, device)
		}
		all = append(all, s)
	}
	return all
}

// measure returns how to measure a unit; nil if its driver cannot.
func (l *loop) measure(u *KnownUnit, device string) func() []*sdk.Metric {
	unit := u.Unit
	switch d := u.source.driver.(type) {
	case Measurer:
		return func() []*sdk.Metric { return d.Measure(unit, device) }
	case Senser:
		number := u.readings.begin()
		return func() []*sdk.Metric {
			senses := d.Sense(unit, device)
			go l.post(func() { l.sensed(u, senses, number) })
			return senses.Metrics
		}
	}
	return nil
}
