package fpga

import (
	"context"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// sample is one card to measure.
type sample struct {
	known *record
	by    driver.Driver
	card  driver.Card
	there bool
	// device is whose the card's values are.
	device string
}

// Sample implements [sdk.Sampler]. Values of a card have its ID, which is the parent of
// its regions; those of a function that only manages have that of the first card of its
// board that has regions.
func (b *Backend) Sample(ctx context.Context) ([]*sdk.Metric, error) {
	var l *loop
	cards, err := sdk.InLoop(ctx, b.asks, func(in *loop) []sample {
		l = in
		return in.samples()
	})
	if err != nil {
		return nil, err
	}
	var metrics []*sdk.Metric
	measured := make(chan []*sdk.Metric, len(cards))
	waiting := 0
	for _, s := range cards {
		metrics = append(metrics, s.counted()...)
		leave, ok := func() { /* nothing was entered */ }, false
		if s.there {
			leave, ok = b.measuring.try(s.card.ID)
		}
		if !ok {
			continue
		}
		waiting++
		go func() {
			defer leave()
			began := time.Now()
			senses := s.by.Sense(s.card)
			measured <- s.sensed(senses)
			l.post(func() { l.sensed(s.known, senses, began) })
		}()
	}
	values, err := sdk.Collect(ctx, b.log, measured, waiting)
	if err != nil {
		return nil, fmt.Errorf("measure the FPGAs: %w", err)
	}
	return append(metrics, values...), nil
}

func (l *loop) samples() []sample {
	var all []sample
	first := map[string]string{} // of each board
	for _, known := range l.roster.sorted() {
		if len(known.regions) > 0 && first[known.card.Board] == "" {
			first[known.card.Board] = known.card.ID
		}
	}
	for _, known := range l.roster.sorted() {
		s := sample{known, known.by.driver, known.card, known.absent == nil, known.card.ID}
		if len(known.regions) == 0 {
			s.device = first[known.card.Board]
		}
		if s.device != "" {
			all = append(all, s)
		}
	}
	return all
}

// sensed are the values of the sensors. Those of one metric are told apart by the label
// sensor.
func (s sample) sensed(senses driver.Senses) []*sdk.Metric {
	metrics := make([]*sdk.Metric, 0, len(senses.Sensors))
	for _, sensor := range senses.Sensors {
		m := sdk.Gauge(s.device, sensor.Metric, sensor.Value)
		m.Labels = map[string]string{"sensor": sensor.Sensor}
		metrics = append(metrics, m)
	}
	return metrics
}

// counted is what the card and its regions counted when they were read last.
func (s sample) counted() []*sdk.Metric {
	metrics := counts(s.device, s.card.Counts)
	for _, region := range s.card.Regions {
		metrics = append(metrics, counts(region.ID, region.Counts)...)
	}
	return metrics
}

func counts(device string, all []driver.Count) []*sdk.Metric {
	metrics := make([]*sdk.Metric, 0, len(all))
	for _, c := range all {
		m := sdk.Gauge(device, c.Name, c.Value)
		if c.Grows {
			m = sdk.Counter(device, c.Name, c.Value)
		}
		if c.Label != "" {
			m.Labels = map[string]string{"register": c.Label}
		}
		metrics = append(metrics, m)
	}
	return metrics
}
