package main

import (
	"fmt"
	"slices"
	"time"
)

// figure is one line of the table.
type figure struct {
	what         string
	value, limit float64 // no limit: 0
	unit         string
	// floor is what the machine takes for floorIs in the same run, if there is one.
	floor   float64
	floorIs string
	// beyond says that value is without the floor already.
	beyond bool
	note   string
}

const header = "whether a limit is met; \"but for the machine\": beyond the floor of the same run it is"

// met says whether the limit is kept.
func (f figure) met() string {
	switch {
	case f.limit == 0:
		return ""
	case f.value <= f.limit:
		return "met"
	case f.floor > 0 && !f.beyond && f.value-f.floor <= f.limit:
		return "but for the machine"
	}
	return "MISSED"
}

func show(figures []figure) {
	for _, f := range figures {
		limit, floor := "", ""
		if f.limit > 0 {
			limit = fmt.Sprintf("limit %g %s", f.limit, f.unit)
		}
		if f.floor > 0 {
			floor = fmt.Sprintf("floor %.2f %s: %s", f.floor, f.unit, f.floorIs)
		}
		fmt.Printf("%-46s %8.3f %-3s %-14s %-20s %s   %s\n", f.what, f.value, f.unit, limit, f.met(), f.note, floor)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is one of some values, which it sorts.
func quantile(values []time.Duration, q float64) time.Duration {
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

func median(values []time.Duration) time.Duration { return quantile(values, 0.5) }
