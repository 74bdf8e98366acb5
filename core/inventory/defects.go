package inventory

import "slices"

// defects are what is wrong with devices of an inventory, and which devices those are:
// what must be known of it where others change. The methods take nil for none.
type defects struct {
	// places has for each device of the report its place among those that stay; -1 if it
	// was left out.
	places []int32
	// mended are the places in the report of those of which something was put right.
	mended map[int]bool
	// left and remarks are what is said of those left out, and of those mended.
	left, remarks []Problem
}

// newDefects are those of a report of so many devices; nil if there are none.
func newDefects(count int, stay []entry, left, remarks *problems) *defects {
	if len(left.kept) == 0 && len(remarks.kept) == 0 {
		return nil
	}
	d := &defects{
		places: slices.Repeat([]int32{-1}, count), mended: map[int]bool{},
		left: left.list("devices are left out"), remarks: remarks.list("devices have defects"),
	}
	for i, e := range stay {
		d.places[e.place] = int32(i) //nolint:gosec // at most MaxDevices
		if e.mended {
			d.mended[e.place] = true
		}
	}
	return d
}

// place is where among those that stay the device is that is at a place of the report; -1
// if it was left out.
func (d *defects) place(i int) int {
	if d == nil {
		return i
	}
	return int(d.places[i])
}

// sound reports whether the device at a place of the report has no defect.
func (d *defects) sound(i int) bool { return d == nil || d.places[i] >= 0 && !d.mended[i] }

// problems are all there are, with the backend's own sentences.
func (d *defects) problems(w *Wire) []Problem {
	if d == nil {
		return own(w.problems)
	}
	return slices.Concat(d.left, own(w.problems), d.remarks)
}
