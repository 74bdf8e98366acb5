package rig

import (
	"fmt"
	"slices"
	"time"
)

// Figure is one line of the table.
type Figure struct {
	What         string
	Value, Limit float64 // no limit: 0
	Unit         string
	// Floor is what the machine takes for FloorIs in the same run, if there is one.
	Floor   float64
	FloorIs string
	// Beyond says that Value is without the floor already.
	Beyond bool
	Note   string
}

// Header says what the table's words mean.
const Header = "whether a limit is met; \"but for the machine\": beyond the floor of the same run it is"

// met says whether the limit is kept.
func (f Figure) met() string {
	switch {
	case f.Limit == 0:
		return ""
	case f.Value <= f.Limit:
		return "met"
	case f.Floor > 0 && !f.Beyond && f.Value-f.Floor <= f.Limit:
		return "but for the machine"
	}
	return "MISSED"
}

// Show prints the lines of the table.
func Show(figures []Figure) {
	for _, f := range figures {
		limit, floor := "", ""
		if f.Limit > 0 {
			limit = fmt.Sprintf("limit %g %s", f.Limit, f.Unit)
		}
		if f.Floor > 0 {
			floor = fmt.Sprintf("floor %.2f %s: %s", f.Floor, f.Unit, f.FloorIs)
		}
		fmt.Printf("%-46s %8.3f %-3s %-14s %-20s %s   %s\n", f.What, f.Value, f.Unit, limit, f.met(), f.Note, floor)
	}
}

// Milliseconds is a duration as a number.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Quantile is one of some values, which it sorts.
func Quantile(values []time.Duration, q float64) time.Duration {
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

// Median is the middle one of some values, which it sorts.
func Median(values []time.Duration) time.Duration { return Quantile(values, 0.5) }
