package rig

import (
	"math"
	"testing"
)

// TestStep verifies that what two series rise by themselves is told from the step
// between them.
func TestStep(t *testing.T) {
	var before, after []Garbage
	for i := range 50 {
		noise := float64(i*7919%13) - 6
		before = append(before, Garbage{Bytes: 1000 + 40*float64(i) + noise})
		after = append(after, Garbage{Bytes: 1000 + 40*float64(50+i) + 300 + noise})
	}
	got := step(before, after, func(g Garbage) float64 { return g.Bytes })
	if math.Abs(got-300) > 5 {
		t.Errorf("the step is %.1f, not 300", got)
	}
}
