package telemetry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/accelmux/accelmux/core/inventory"
)

// Describe implements [prometheus.Collector]. Names are not known beforehand.
func (t *Telemetry) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]: a scrape is a read, see the package comment.
// It allocates only labels that changed.
func (t *Telemetry) Collect(out chan<- prometheus.Metric) {
	var last *labels
	t.visit(context.Background(), func(s *sample, p *point, owner Owner) {
		last = p.series.device.owned(s.backend, owner, last)
		p.series.label(last)
		out <- p
	})
}

// Reading is what was measured of one device.
type Reading struct {
	Device inventory.Key
	// At is when the sample was received.
	At     time.Time
	Values []Value
}

// Value is one value of a device, in base units.
type Value struct {
	// Name is without Prefix.
	Name string
	// Labels are the backend's own; nil if there are none.
	Labels  map[string]string
	Value   float64
	Counter bool
}

// Read returns the newest values, the devices in the order of their backends'
// names and of the samples. See the package comment for what a read starts.
func (t *Telemetry) Read(ctx context.Context) []Reading {
	var readings []Reading
	place := map[inventory.Key]int{}
	t.visit(ctx, func(s *sample, p *point, _ Owner) {
		key := inventory.Key{Backend: s.backend, ID: p.series.device.id}
		i, known := place[key]
		if !known {
			i = len(readings)
			place[key] = i
			readings = append(readings, Reading{Device: key, At: s.at})
		}
		value := Value{Name: p.series.family.name, Value: p.value, Counter: p.series.family.counter}
		for _, label := range p.series.own {
			if value.Labels == nil {
				value.Labels = make(map[string]string, len(p.series.own))
			}
			value.Labels[label.GetName()] = label.GetValue()
		}
		readings[i].Values = append(readings[i].Values, value)
	})
	return readings
}

// visit calls show with every value that is new enough, and the owner of its device.
func (t *Telemetry) visit(ctx context.Context, show func(*sample, *point, Owner)) {
	t.request(ctx)
	samples := t.samples(time.Now())
	covered, look := covered(samples), t.opts.Look()
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		s := samples[name]
		var last *device
		var owner Owner
		var known bool
		for i := range s.points {
			p := &s.points[i]
			if d := p.series.device; d != last { // a device's values stand together, usually
				last = d
				owner, known = look(inventory.Key{Backend: name, ID: d.id})
			}
			if known && !covered[p.series.family.name] {
				show(s, p, owner)
			}
		}
	}
}

// covered are the gauges for which there is a counter that has the same name in
// OpenMetrics.
func covered(samples map[string]*sample) map[string]bool {
	gauges, both := map[string]bool{}, map[string]bool{}
	for _, s := range samples {
		for name, f := range s.families {
			if !f.counter {
				gauges[name] = true
			}
		}
	}
	for _, s := range samples {
		for name := range s.families {
			if base, counter := strings.CutSuffix(name, counterSuffix); counter && gauges[base] {
				both[base] = true
			}
		}
	}
	return both
}
