package rig

import (
	"fmt"
	"slices"
	"time"
)

// Figure is one line of the table.
type Figure struct {
	What string
	// Value and Limit are in Unit, base or SI-prefixed. No limit: 0; where nothing at all is
	// allowed the limit is what cannot be told from nothing.
	Value, Limit float64
	Unit         string
	// Times is the limit as a multiple of the floor, in the place of Limit; 0 for none.
	Times float64
	// Samples is how many measurements the value is made of; 0 if that is not a number.
	Samples int
	// Floor is what the machine takes for FloorIs in the same run, if there is one.
	Floor   float64
	FloorIs string
	Note    string
}

// Bound is the limit in the figure's unit; 0 if there is none.
func (f Figure) Bound() float64 {
	if f.Times > 0 {
		return f.Times * f.Floor
	}
	return f.Limit
}

// Met reports whether the value is within the limit, whatever the floor; true without one.
func (f Figure) Met() bool { return f.Bound() == 0 || f.Value <= f.Bound() }

// Verdict is whether the value is within the limit, in the words of the table; "" without one.
func (f Figure) Verdict() string {
	switch {
	case f.Bound() == 0:
		return ""
	case f.Met():
		return "met"
	case f.Times > 0:
		return "MISSED"
	case f.Floor > 0 && f.Value-f.Floor <= f.Limit:
		return "but for the machine"
	}
	return "MISSED"
}

// Show prints the lines of the table.
func Show(figures []Figure) {
	for _, f := range figures {
		limit, floor := "", ""
		switch {
		case f.Times > 0:
			limit = fmt.Sprintf("limit %g ×", f.Times)
		case f.Limit > 0:
			limit = fmt.Sprintf("limit %g %s", f.Limit, f.Unit)
		}
		if f.Floor > 0 {
			floor = fmt.Sprintf("%.2f × floor %.2f %s: %s", f.Value/f.Floor, f.Floor, f.Unit, f.FloorIs)
		}
		fmt.Printf("%-56s %10.3f %-4s %-14s %-20s %s   %s\n", f.What, f.Value, f.Unit, limit, f.Verdict(), f.Note, floor)
	}
}

// Milliseconds is a duration as a number.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Microseconds is a duration as a number.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Quantile is one of some values, which it sorts. A p99 of 100 values or fewer is the
// largest of them, and not to be called a p99.
func Quantile(values []time.Duration, q float64) time.Duration {
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

// Median is the middle one of some values, which it sorts.
func Median(values []time.Duration) time.Duration { return Quantile(values, 0.5) }
