package intel

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// place is a piece of hardware: a function or a port, with the AFU that is in it.
type place struct {
	address string
	port    int
	afu     string
}

// places returns where the IDs of cards (port -1) and of ports are.
func places(t *testing.T, inventory Inventory) map[string]place {
	t.Helper()
	all := map[string]place{}
	add := func(id string, p place) {
		if other, twice := all[id]; twice {
			t.Errorf("%s is %v and %v", id, other, p)
		}
		all[id] = p
	}
	for _, c := range inventory.Cards {
		add(c.ID, place{c.PCI.Address.String(), -1, ""})
		for _, p := range c.Ports {
			add(p.ID, place{c.PCI.Address.String(), p.Number, p.AFU})
		}
	}
	return all
}

// In each half state of reloads and hot-plugs, each device found is what its ID names; and when
// all are there again, found in another order, each has its ID again.
func TestHalfway(t *testing.T) {
	m := fpgatree.NewMixed()
	for i := range m.Cards { // each has an AFU of its own, so that a mix-up shows
		if m.Cards[i].AFU != "" {
			m.Cards[i].AFU = fmt.Sprintf("%032x", 0xabc0+i)
		}
	}
	tree := fpgatest.Tree(t, m)
	truth := places(t, find(t, tree))
	states := map[string]bool{}
	tree.Halfway = func(state string) {
		states[state] = true
		got, err := read(both(tree), func() {})
		if err != nil || got.Unstable {
			t.Errorf("%s: %v, unstable %t", state, err, got.Unstable)
		}
		for id, at := range places(t, got) {
			if truth[id] != at {
				t.Errorf("%s: %s is %v, want %v", state, id, at, truth[id])
			}
		}
	}
	fpgatest.OK(t, errors.Join(tree.Unplug(5), tree.Unplug(2), tree.Plug(5), tree.ReloadDriver(5, 4, 3, 1, 0), tree.Plug(2)))
	if len(states) != 7 {
		t.Errorf("states were %v, want 7", states)
	}
	if got := find(t, tree); !maps.Equal(places(t, got), truth) || len(got.Problems) > 0 {
		t.Errorf("afterwards %q, problems %q", sketches(got), fpgatest.Problems(got.Problems))
	}
}

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
