package intel

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// place is a piece of hardware: a function or a port, with the AFU that is in it.
type place struct {
	address string
	port    int
	afu     string
}

// places returns where the IDs of cards (port -1) and of ports are.
func places(t interface {
	Fatalf(string, ...any)
}, inventory Inventory,
) map[string]place {
	all := map[string]place{}
	add := func(id string, p place) {
		if other, twice := all[id]; twice {
			t.Fatalf("%s is %v and %v", id, other, p)
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

// distinctAFUs gives each card of a machine an AFU of its own, so that a mix-up shows.
func distinctAFUs(m fpgatree.Machine) fpgatree.Machine {
	for i := range m.Cards {
		if m.Cards[i].AFU != "" {
			m.Cards[i].AFU = fmt.Sprintf("%032x", 0xabc0+i)
		}
	}
	return m
}

// In any order of discovery, after reloads and hot-plugs, one ID is one piece of hardware, and a
// piece that is present has its ID again.
func TestStableIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := distinctAFUs(fpgatree.NewMixed())
		// A card with four functions, one under the older driver, one with two ports of its
		// own and one of a virtual function.
		m.Cards[5].VFs = 1
		m.Cards = rapid.Permutation([]fpgatree.Card{m.Cards[2], m.Cards[3], m.Cards[5]}).Draw(t, "order of discovery")
		dir, err := sysroot.MakeTemp()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		tree, err := fpgatree.Write(dir, m)
		if err != nil {
			t.Fatal(err)
		}
		ids, hardware := map[string]place{}, map[place]string{}
		scan := func(cards int) {
			got, err := Read(tree.Sysfs())
			if err != nil || got.Unstable || len(got.Problems) > 0 || len(got.Cards) != cards {
				t.Fatalf("%d cards, want %d; %v, unstable %t, problems %q", len(got.Cards), cards, err, got.Unstable, fpgatest.Problems(got.Problems))
			}
			for id, at := range places(t, got) {
				if known, ok := ids[id]; ok && known != at {
					t.Fatalf("%s was %v and is %v", id, known, at)
				}
				if known, ok := hardware[at]; ok && known != id {
					t.Fatalf("%v had the ID %s and has %s", at, known, id)
				}
				ids[id], hardware[at] = at, id
			}
		}
		scan(7)
		for step := range rapid.IntRange(1, 3).Draw(t, "changes") {
			if rapid.Bool().Draw(t, fmt.Sprintf("change %d is a reload", step)) {
				err = tree.ReloadDriver(rapid.Permutation([]int{0, 1, 2}).Draw(t, "order")...)
			} else {
				at := rapid.IntRange(0, 2).Draw(t, "card")
				err = errors.Join(tree.Unplug(at), tree.Plug(at))
			}
			if err != nil {
				t.Fatal(err)
			}
			scan(7)
		}
	})
}

// In each half state of a change, each device found is what its ID names.
func TestHalfway(t *testing.T) {
	m := distinctAFUs(fpgatree.NewMixed())
	tree := fpgatest.Tree(t, m)
	truth := places(t, find(t, tree))
	states := map[string]bool{}
	tree.Halfway = func(state string) {
		states[state] = true
		got, err := Read(tree.Sysfs())
		if err != nil || got.Unstable {
			t.Errorf("%s: %v, unstable %t", state, err, got.Unstable)
		}
		for id, at := range places(t, got) {
			if truth[id] != at {
				t.Errorf("%s: %s is %v, want %v", state, id, at, truth[id])
			}
		}
	}
	if err := errors.Join(tree.Unplug(5), tree.Unplug(2), tree.Plug(5), tree.ReloadDriver(5, 4, 3, 1, 0), tree.Plug(2)); err != nil {
		t.Fatal(err)
	}
	if len(states) != 7 {
		t.Errorf("states were %v, want 7", states)
	}
}

// After a change during a read everything is read again; changes without end are reported.
func TestChangeWhileReading(t *testing.T) {
	for name, c := range map[string]struct {
		changes, passes int
		unstable        bool
	}{"none": {0, 1, false}, "once": {1, 2, false}, "three times": {3, 4, false}, "always": {100, tries, true}} {
		tree := fpgatest.Tree(t, fpgatree.NewMany(2))
		orders, calls := [][]int{{0, 1}, {1, 0}}, 0
		got, err := read(reader{root: tree.Sysfs()}, func() {
			if calls++; calls%2 == 0 || calls/2 >= c.changes {
				return // one change in each pass
			}
			if err := tree.ReloadDriver(orders[(calls/2+1)%2]...); err != nil {
				t.Error(err)
			}
		})
		if err != nil || got.Unstable != c.unstable || calls/2 != c.passes {
			t.Errorf("%s: unstable %t after %d passes, want %d; %v", name, got.Unstable, calls/2, c.passes, err)
		}
		if !c.unstable && (len(got.Cards) != 2 || len(got.Problems) > 0) {
			t.Errorf("%s: %q, problems %q", name, sketches(got), fpgatest.Problems(got.Problems))
		}
	}
}
