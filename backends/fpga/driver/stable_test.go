package driver

import (
	"cmp"
	"errors"
	"slices"
	"testing"
)

// A machine that changes while it is read is read again, a few times at most; what was read
// before the last change is not in the result. An error of the first list is returned, one of the
// second is a change.
func TestReadStable(t *testing.T) {
	broken := errors.New("it cannot be listed")
	for name, c := range map[string]struct {
		changes, passes int    // changes is how many passes see one
		broken          []bool // by list, in order
		unstable        bool
		err             error
	}{
		"no change":        {passes: 1},
		"one":              {changes: 1, passes: 2},
		"in all but one":   {changes: tries - 1, passes: tries},
		"always":           {changes: 100, passes: tries, unstable: true},
		"no list":          {broken: []bool{true}, err: broken},
		"no second list":   {broken: []bool{false, true}, passes: 2},
		"no list any more": {broken: []bool{false, true, true}, passes: 1, err: broken},
		"no last list":     {changes: tries - 1, broken: []bool{2*tries - 1: true}, passes: tries, unstable: true},
	} {
		machine, between, lists, passes := []int{0}, 0, 0, 0
		var found []int
		unstable, err := ReadStable(func() ([]int, error) {
			lists++
			if lists <= len(c.broken) && c.broken[lists-1] {
				return nil, broken
			}
			return slices.Clone(machine), nil
		}, func(all []int) {
			passes++
			found = all
		}, func(a, b int) bool { return cmp.Compare(a, b) == 0 }, func() {
			if between++; between%2 == 0 && between/2 <= c.changes {
				machine[0]++
			}
		})
		if unstable != c.unstable || !errors.Is(err, c.err) || passes != c.passes {
			t.Errorf("%s: unstable %t after %d passes, want %t after %d; %v", name, unstable, passes, c.unstable, c.passes, err)
		}
		if err == nil && !unstable && !slices.Equal(found, machine) {
			t.Errorf("%s: found %v on %v", name, found, machine)
		}
	}
}
