package telemetry

import (
	"fmt"
	"hash/maphash"
	"time"
)

const (
	// seriesWindow is the time for which a backend has a budget of series.
	seriesWindow = time.Hour
	// baseSeries and deviceSeries are how many series a backend may have at once, and how
	// many more for each device that it measures; at most as many as a sample may have. In
	// the window it may have as many again, a few at a time, so that one that had too many
	// once need not wait for the next window.
	baseSeries, deviceSeries = 1024, 256
)

// budget bounds the series of one backend over time: who collects metrics stores each that
// ever was. The series of this window and of the one before are known; one that is not is
// new, and counts. Used by one goroutine at a time. The zero value is ready.
type budget struct {
	seed        maphash.Seed
	since       time.Time
	window      int
	room        float64 // part of the limit that has come in addition
	now, before map[uint64]struct{}
}

// turn begins another window if it is time.
func (b *budget) turn(now time.Time) {
	b.room = float64(now.Sub(b.since)) / float64(seriesWindow)
	if b.now != nil && b.room < 1 {
		return
	}
	b.room = 0
	if b.now == nil {
		b.seed = maphash.MakeSeed()
	}
	b.since, b.before, b.now = now, b.now, map[uint64]struct{}{}
	b.window++
}

// seriesLimit is how many series a backend with so many measured devices may have.
func seriesLimit(devices int) int { return min(baseSeries+deviceSeries*devices, maxMetrics) }

// admit returns why a series is beyond the budget of a backend that measures so many
// devices. Of series that were there in the window before, there is room for as many again.
func (b *budget) admit(id identity, devices int) error {
	hash := maphash.Comparable(b.seed, [3]string{id.device.id, id.family.name, id.labels})
	if _, known := b.now[hash]; known {
		return nil
	}
	limit := int(float64(seriesLimit(devices)) * (1 + b.room))
	_, known := b.before[hash]
	if len(b.now) < limit || known && len(b.now) < 2*limit {
		b.now[hash] = struct{}{}
		return nil
	}
	return fmt.Errorf("the backend has had %d series within %s, and with %d devices it may have no more now: labels are for few values, such as the names of sensors",
		len(b.now), seriesWindow, devices)
}
