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
	if !ok || l.set.Sensing == 0 || u.Absent() || !u.sensing.IsZero() || now.Before(u.nextSense) {
		return
	}
	u.sensing, u.nextSense = now, now.Add(l.set.Sensing)
	unit := u.Unit
	go func() {
		senses := senser.Sense(unit, unit.ID)
		l.post(func() {
			u.sensing = time.Time{}
			l.sensed(u, senses)
		})
	}()
}

// sensed takes over a reading of sensors.
func (l *loop) sensed(u *KnownUnit, s Senses) {
	if c, ok := l.set.Vendor.(Counter); ok {
		l.changed = c.Sensed(u, s.Vendor) || l.changed
	}
	u.Senses = s.Vendor
}

// sample is a unit to measure.
type sample struct {
	known   *KnownUnit
	senser  Senser // nil if the unit is absent or has no sensors
	unit    Unit
	device  string
	counted []*sdk.Metric
}

// Sample returns telemetry of all units, for [sdk.Sampler]. Metrics of a unit without
// devices have the ID of the first unit of its board that has some.
func (e *Engine) Sample(ctx context.Context) ([]*sdk.Metric, error) {
	var l *loop
	units, err := sdk.InLoop(ctx, e.asks, func(in *loop) []sample {
		l = in
		return in.samples()
	})
	if err != nil {
		return nil, err
	}
	var metrics []*sdk.Metric
	measured := make(chan []*sdk.Metric, len(units))
	waiting := 0
	for _, s := range units {
		metrics = append(metrics, s.counted...)
		if s.senser == nil {
			continue
		}
		leave, ok := e.measuring.try(s.unit.ID)
		if !ok {
			continue
		}
		waiting++
		go func() {
			defer leave()
			senses := s.senser.Sense(s.unit, s.device)
			measured <- senses.Metrics
			l.post(func() { l.sensed(s.known, senses) })
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
		s := sample{known: known, unit: known.Unit, device: known.Unit.ID}
		if len(known.devices) == 0 {
			s.device = first[known.Unit.Board]
		}
		if s.device == "" {
			continue
		}
		if !known.Absent() {
			s.senser, _ = known.source.driver.(Senser)
		}
		if counts {
			s.counted = counter.Count(known, s.device)
		}
		all = append(all, s)
	}
	return all
}
