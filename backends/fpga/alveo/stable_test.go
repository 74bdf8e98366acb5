package alveo

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// changes returns what happens to a machine of cards of each model.
func changes(tree *fpgatree.Tree) map[string]func() error {
	shutdown := filepath.Join(tree.Sysfs(), "bus/pci/devices/0000:31:00.1/shutdown")
	return map[string]func() error{
		"reset":    func() error { return errors.Join(tree.BeginReset(2), tree.EndReset(2)) },
		"shutdown": func() error { return errors.Join(tree.WriteShutdown(shutdown, "1"), tree.WriteShutdown(shutdown, "0")) },
		"firewall": func() error {
			return errors.Join(tree.TripFirewall(0, 1, "ep_firewall_ctrl_user_00", 1<<19, 9), tree.TripFirewall(0, 0, "", 0, 0))
		},
		"xclbin": func() error { return errors.Join(tree.LoadXclbin(1, loaded), tree.LoadXclbin(1, "")) },
		"unplug": func() error { return errors.Join(tree.UnplugAlveo(3), tree.PlugAlveo(3)) },
		"reload": func() error { return errors.Join(tree.ReloadXRT(5, 3, 4, 2, 0, 1), tree.ReloadXRT(0, 1, 2, 3, 4, 5)) },
	}
}

// known returns what cards are by ID: the name of the region, and where it is.
func known(r driver.Reading) map[string]string {
	all := map[string]string{}
	for _, c := range r.Cards {
		all[c.ID] = c.Dir
		for _, g := range c.Regions {
			all[c.ID] += " " + g.ID + " " + g.Name
		}
	}
	return all
}

// strange returns what is wrong with cards that were read while the machine changed: each is
// one of those that there are, or does not report all of it and is busy.
func strange(r driver.Reading, want map[string]string) string {
	for _, c := range r.Cards {
		is, there := want[c.ID]
		if !there {
			return "card " + c.ID + " is none of them"
		}
		for _, g := range c.Regions {
			switch {
			case g.Name == "" && g.State != driver.Busy:
				return "card " + c.ID + " has no name though it is " + string(g.State)
			case g.Name != "" && is != c.Dir+" "+g.ID+" "+g.Name:
				return "card " + c.ID + " is " + c.Dir + " " + g.ID + " " + g.Name
			case g.State != driver.Busy && len(g.Nodes) != 1:
				return "card " + c.ID + " has the nodes " + strings.Join(g.Nodes, ", ")
			}
		}
	}
	return ""
}

// In each state that the kernel shows during a change, a card is correct or left out; in a reset
// it stays listed.
func TestHalfway(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveos())
	d := newDriver(tree, Settings{})
	want := known(d.Read())
	states := 0
	name := ""
	tree.Halfway = func(state string) {
		states++
		r := d.Read()
		if text := strange(r, want); text != "" {
			t.Errorf("%s, in the state %q: %s", name, state, text)
		}
		if keeps := name == "reset" || name == "shutdown" || name == "firewall"; keeps && (len(r.Cards) != len(want) || len(r.Problems) > 0) {
			t.Errorf("%s, in the state %q there are %d cards of %d, and problems %v", name, state, len(r.Cards), len(want), r.Problems)
		}
		if r.Unstable {
			t.Errorf("%s, in the state %q it is unstable", name, state)
		}
		if at := slices.IndexFunc(r.Cards, func(c driver.Card) bool { return c.ID == "fpga-21770202K02A" }); name == "reset" && r.Cards[at].Regions[0].State != driver.Busy {
			t.Errorf("%s, in the state %q it is %s", name, state, r.Cards[at].Regions[0].State)
		}
	}
	all := changes(tree)
	for _, name = range slices.Sorted(maps.Keys(all)) {
		fpgatest.OK(t, all[name]())
		if got := known(d.Read()); !maps.Equal(got, want) {
			t.Errorf("after %s there are %v, want %v", name, got, want)
		}
	}
	if states < 40 {
		t.Errorf("there were %d states", states)
	}
}

// A machine that changes once while it is read is read again; one that never stops changing is
// reported as unstable.
func TestTorn(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	passes := 0
	i := read(tree.Sysfs(), sysfs.Read, func() {
		if passes++; passes == 1 {
			fpgatest.OK(t, tree.BeginReset(0))
		}
	})
	if i.Unstable || len(i.Cards) != 1 || i.Cards[0].Offline() == "" {
		t.Errorf("after %d passes it is %+v", passes, i)
	}
	fpgatest.OK(t, tree.EndReset(0))
	passes = 0
	i = read(tree.Sysfs(), sysfs.Read, func() {
		if passes++; passes%2 == 0 {
			fpgatest.OK(t, tree.SetAlveo(0, fpgatree.User, "ready", []string{"0x1\n", "0x0\n"}[passes/2%2]))
		}
	})
	if !i.Unstable {
		t.Errorf("after %d changes it is %+v", passes/2, i)
	}
}

// Cards are read, sensed and compared while the machine changes.
func TestConcurrent(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveos())
	d := newDriver(tree, Settings{})
	first := d.Read()
	want := known(first)
	f := open(t, u250())
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				r := d.Read()
				if text := strange(r, want); text != "" && !r.Unstable {
					t.Error(text)
				}
				for _, c := range first.Cards {
					d.Sense(c)
					if len(c.Regions) > 0 {
						_ = d.Fits(c, c.Regions[0], f)
					}
				}
			}
		})
	}
	all := changes(tree)
	for range 3 {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fpgatest.OK(t, all[name]())
		}
	}
	cancel()
	readers.Wait()
	if got := known(d.Read()); !maps.Equal(got, want) {
		t.Errorf("afterwards there are %v, want %v", got, want)
	}
}
