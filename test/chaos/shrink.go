package main

import "slices"

// shrink makes a list of steps shorter as long as it fails in the same way: delta
// debugging (Zeller and Hildebrandt, 2002), by taking out ever smaller pieces. Before
// that the end of the list is tried alone: of thousands of steps, which take an hour, few
// matter, and the last ones most likely. fails runs a list; runs bounds how often. The
// result is such a list, if steps is one.
func shrink(steps []step, runs int, fails func([]step) bool) []step {
	for _, last := range []int{10, 30, 100, 300} {
		if last >= len(steps) || runs == 0 {
			break
		}
		runs--
		if end := steps[len(steps)-last:]; fails(end) {
			steps = end
			break
		}
	}
	pieces := 2
	for len(steps) > 1 && runs > 0 {
		size := (len(steps) + pieces - 1) / pieces
		shorter := false
		// From the end: what comes late is the least likely to be needed, but for the
		// last piece, which failed.
		for from := (pieces - 1) * size; from >= 0 && runs > 0; from -= size {
			if from >= len(steps) {
				continue
			}
			without := slices.Concat(steps[:from], steps[min(from+size, len(steps)):])
			runs--
			if len(without) > 0 && fails(without) {
				steps, shorter = without, true
				break
			}
		}
		switch {
		case shorter:
			pieces = max(pieces-1, 2)
		case size == 1:
			return steps
		default:
			pieces = min(2*pieces, len(steps))
		}
	}
	return steps
}
