package intel

import (
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// After a reload during a read everything is read again; reloads without end are reported.
func TestChangeWhileReading(t *testing.T) {
	for passes, unstable := range map[int]bool{1: false, 100: true} {
		tree := fpgatest.Tree(t, fpgatree.NewMany(2))
		calls := 0
		got, err := read(both(tree), func() {
			calls++
			if pass := (calls + 1) / 2; calls%2 == 1 && pass <= passes {
				fpgatest.OK(t, tree.ReloadDriver(pass%2, 1-pass%2))
			}
		})
		if err != nil || got.Unstable != unstable || !unstable && (len(got.Cards) != 2 || len(got.Problems) > 0) {
			t.Errorf("changes in %d passes: unstable %t; %v; %q, problems %q", passes, got.Unstable, err, sketches(got), fpgatest.Problems(got.Problems))
		}
	}
}
