package page

import (
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status/listing"
)

// chartPoints is the number of samples of a chart: 10 minutes.
const chartPoints = 60

// charted are the values that have charts.
var charted = [...]string{"utilization_ratio", "memory_used_bytes", "temperature_celsius", "power_watts"}

// samples are the latest values of each device, for the charts: 4,000 devices take 6 MB. They are safe for
// concurrent use.
type samples struct {
	mu  sync.Mutex
	all map[inventory.Key]*series
}

// series are those of one device.
type series struct {
	// at is the time of the newest.
	at time.Time
	// values are in the order of charted, the oldest first, at most chartPoints each.
	values [len(charted)][]float32
}

// add stores the values that are newer than the stored ones, and drops devices without new ones for
// as long as a chart is.
func (s *samples) add(t listing.Telemetry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[inventory.Key]*series{}
	}
	for _, d := range t.Devices {
		key := inventory.Key{Backend: d.Backend, ID: d.ID}
		if d.SampledAt == nil {
			continue
		}
		of := s.all[key]
		if of == nil {
			of = &series{}
			s.all[key] = of
		}
		if !d.SampledAt.After(of.at) {
			continue
		}
		of.at = *d.SampledAt
		for i, name := range charted {
			if value, ok := d.Value(name); ok {
				of.values[i] = push(of.values[i], float32(value))
			}
		}
	}
	for key, of := range s.all {
		if time.Since(of.at) > chartPoints*sampleEvery {
			delete(s.all, key)
		}
	}
}

// push appends a value, and drops the oldest of a full chart.
func push(values []float32, value float32) []float32 {
	if values == nil {
		values = make([]float32, 0, chartPoints)
	}
	if len(values) == chartPoints {
		copy(values, values[1:])
		values = values[:chartPoints-1]
	}
	return append(values, value)
}

// of returns copies of a device's values, in the order of charted.
func (s *samples) of(key inventory.Key) (values [len(charted)][]float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.all[key]; of != nil {
		for i := range values {
			values[i] = append(values[i], of.values[i]...)
		}
	}
	return values
}

func (s *samples) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}
