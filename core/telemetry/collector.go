package telemetry

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/accelmux/accelmux/core/inventory"
)

// Describe implements [prometheus.Collector]. The names are not known in advance.
func (t *Telemetry) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]: a scrape is a request, see the package comment.
func (t *Telemetry) Collect(out chan<- prometheus.Metric) {
	var device inventory.Key
	var common []*dto.LabelPair
	t.visit(context.Background(), func(s *sample, p *point, owner Owner) {
		if key := (inventory.Key{Backend: s.backend, ID: p.device}); common == nil || key != device {
			device, common = key, deviceLabels(s.backend, p.device, owner)
		}
		m := metric{p, common}
		if len(p.labels) > 0 {
			m.all = slices.Concat(common, p.labels)
			slices.SortFunc(m.all, byName)
		}
		out <- m
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
	Name string `json:"name"`
	// Labels are the backend's own; nil if there are none.
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
	// Counter: the value only grows. Otherwise it is a gauge.
	Counter bool `json:"counter,omitempty"`
}

// Read returns the newest values, the devices in the order of their backends' names and of
// the samples. It is a request, see the package comment.
func (t *Telemetry) Read(ctx context.Context) []Reading {
	var readings []Reading
	index := map[inventory.Key]int{}
	t.visit(ctx, func(s *sample, p *point, _ Owner) {
		key := inventory.Key{Backend: s.backend, ID: p.device}
		i, known := index[key]
		if !known {
			i = len(readings)
			index[key] = i
			readings = append(readings, Reading{Device: key, At: s.at})
		}
		value := Value{Name: p.family.name, Value: p.value, Counter: p.family.counter}
		for _, label := range p.labels {
			if value.Labels == nil {
				value.Labels = make(map[string]string, len(p.labels))
			}
			value.Labels[label.GetName()] = label.GetValue()
		}
		readings[i].Values = append(readings[i].Values, value)
	})
	return readings
}

// visit calls show with every value that may be shown and the owner of its device.
func (t *Telemetry) visit(ctx context.Context, show func(*sample, *point, Owner)) {
	t.request(ctx)
	samples := t.samples(time.Now())
	ownerOf := t.opts.Owners()
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		s := samples[name]
		for i := range s.points {
			p := &s.points[i]
			if owner, known := ownerOf(inventory.Key{Backend: name, ID: p.device}); known {
				show(s, p, owner)
			}
		}
	}
}
