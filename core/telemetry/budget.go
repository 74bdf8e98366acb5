package telemetry

import (
	"fmt"
	"hash/maphash"
	"time"
)

const (
	// seriesWindow is the period of a backend's budget of series.
	seriesWindow = time.Hour
	// baseSeries is the number of series that a backend may have, and deviceSeries the number
	// that each measured device adds; the maximum is that of a sample. During a window the
	// limit grows to twice that, so that a backend that exceeded it need not wait for the
	// next window.
	baseSeries, deviceSeries = 1024, 256
)

// budget bounds the series of one backend over time: monitoring stores each series that
// ever existed. The series of this window and of the previous one are known; any other is
// new, and counts. A budget is for one goroutine at a time. The zero value is ready.
type budget struct {
	seed        maphash.Seed
	since       time.Time
	window      int
	room        float64 // fraction of the limit that has been added in this window
	now, before map[uint64]struct{}
}

// turn begins a new window if the current one has ended.
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

// seriesLimit is how many series a backend with this number of measured devices may have.
func seriesLimit(devices int) int { return min(baseSeries+deviceSeries*devices, maxMetrics) }

// admit returns an error if a series exceeds the budget of a backend that measures this
// number of devices. Series of the previous window have room for as many again.
func (b *budget) admit(s series, devices int) error {
	hash := maphash.Comparable(b.seed, s)
	if _, known := b.now[hash]; known {
		return nil
	}
	limit := int(float64(seriesLimit(devices)) * (1 + b.room))
	_, known := b.before[hash]
	if len(b.now) < limit || known && len(b.now) < 2*limit {
		b.now[hash] = struct{}{}
		return nil
	}
	return fmt.Errorf("the backend has had %d series within %s, and with %d devices it may have no more now: use labels for few values only, such as the names of sensors",
		len(b.now), seriesWindow, devices)
}
