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
	"github.com/accelmux/accelmux/test/sysroot"
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

// After any damage to a file, a card keeps its ID and name or there is a problem, and nothing
// hangs. A number that was cut is another number.
func TestDamages(t *testing.T) {
	m := fpgatree.NewAlveo(fpgatree.U250)
	m.Alveos[0].Xclbin = loaded
	files := map[fpgatree.Side][]string{
		fpgatree.User: {
			"user_pf", "shutdown", "ready", "dev_offline", "xclbinuuid", "interface_uuids", "logic_uuids", "board_name", "vendor", "device", "class",
			"numa_node", "drm", "rom/VBNV", "rom/timestamp", "xmc/serial_num", "firewall/status",
		},
		fpgatree.Management: {
			"mgmt_pf", "instance", "ready", "dev_offline", "recovery", "vendor", "class", "rom/VBNV", "xmc/serial_num", "xmc/xmc_power",
			"firewall/status", "firewall/level", "firewall/detected_level_name", "mig/ecc_enabled", "mig/ecc_ce_cnt",
		},
	}
	for side, all := range files {
		for _, file := range all {
			for name, damage := range sysroot.Damages {
				if file != "drm" || name == "missing" || name == "loop" || name == "fifo" || name == "dangling" {
					damaged(t, m, side, file, name, damage)
				}
			}
		}
	}
}

// damaged checks what is read of a card with a file that is damaged.
func damaged(t *testing.T, m fpgatree.Machine, side fpgatree.Side, file, name string, damage sysroot.Damage) {
	t.Helper()
	tree := fpgatest.Tree(t, m)
	d := newDriver(tree, Settings{})
	before := one(t, d)
	fpgatest.OK(t, tree.SpoilAlveo(0, side, file, damage))
	r := d.Read()
	base := filepath.Base(file)
	for _, c := range r.Cards {
		if c.ID != before.ID && len(c.Regions) > 0 && (base != "serial_num" || name != "truncated" && name != "huge number") {
			t.Errorf("%s %s: card %s", name, file, c.ID)
		}
		for _, g := range c.Regions {
			same := g.Name == before.Regions[0].Name || g.Name == "" && g.State == driver.Busy
			if !same && base != "timestamp" && base != "VBNV" {
				t.Errorf("%s %s: the region is %s", name, file, g.Name)
			}
		}
		d.Sense(c)
	}
	if len(r.Cards) == 0 && len(r.Problems) == 0 && base != "vendor" && base != "user_pf" {
		t.Errorf("%s %s: the card is gone without a problem", name, file)
	}
}
