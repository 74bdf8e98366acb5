package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Each damage affects at most its card or its region, with a problem that has the reason; the
// other cards are as before.
func TestDamage(t *testing.T) {
	const (
		manager = "sys/devices/platform/firmware:zynqmp-firmware/firmware:zynqmp-firmware:pcap/fpga_manager/fpga0/"
		region  = "sys/devices/platform/fpga-full/fpga_region/region0/"
		uio     = "sys/devices/platform/fpga-full/a0000000.dma/uio/uio0/"
		node    = "sys/firmware/devicetree/base/"
	)
	type one struct {
		file   string
		damage sysroot.Damage
		left   string // what of the card is: all, no nodes, no region, none
		want   string // in a problem; empty for no problem
	}
	for name, c := range map[string]one{
		"compat_id of 31 digits":    {region + "compat_id", fpgatest.Text(strings.Repeat("1", 31)), "all", "no UUID"},
		"compat_id of f":            {region + "compat_id", fpgatest.Text(strings.Repeat("f", 32)), "all", "no ID"},
		"compat_id empty":           {region + "compat_id", fpgatest.Text("\n"), "all", ""},
		"name of two lines":         {manager + "name", fpgatest.Text("a\nb\n"), "none", "not one line"},
		"link of a region in loops": {"sys/class/fpga_region/region0", sysroot.Loop, "whole", "leads to no device"},
		"region is no link":         {"sys/class/fpga_region/region0", sysroot.Directory, "whole", "no link"},
		"manager is no link":        {"sys/class/fpga_manager/fpga0", sysroot.Directory, "none", "no link"},
		"class has something else":  {"sys/class/fpga_manager/fpgax", sysroot.Loop, "all", ""},
		"phandle of three bytes":    {node + "firmware/zynqmp-firmware/pcap/phandle", fpgatest.Text("abc"), "whole", "want a number of four"},
		"fpga-mgr of no bytes":      {node + "fpga-full/fpga-mgr", fpgatest.Text(""), "whole", "want a number of four"},
		"fpga-mgr of another":       {node + "fpga-full/fpga-mgr", fpgatest.Text("\x00\x00\x00\x63"), "whole", "its manager is not there"},
		"no fpga-mgr":               {node + "fpga-full/fpga-mgr", os.RemoveAll, "whole", "it is not known which manager"},
		"node that leads out":       {uio + "uevent", fpgatest.Text("DEVNAME=../../etc/passwd\n"), "one node", "none below /dev"},
		"node that is absolute":     {uio + "uevent", fpgatest.Text("DEVNAME=/dev/mem\n"), "one node", "none below /dev"},
		"node in a directory":       {uio + "uevent", fpgatest.Text("DEVNAME=uio0\n"), "all", ""},
		"no uevent":                 {uio + "uevent", os.RemoveAll, "all", ""},
		"of_node leads out":         {"sys/devices/platform/fpga-full/of_node", func(p string) error { return os.Remove(p) }, "all", ""},
		"link in a circle":          {"sys/devices/platform/fpga-full/again", func(p string) error { return os.Symlink(".", p) }, "all", ""},
		"firmware is a directory":   {manager + "firmware", sysroot.Directory, "all", ""},
		"state is a FIFO":           {manager + "state", sysroot.FIFO, "none", "state"},
		"state is a number":         {manager + "state", sysroot.HugeNumber, "all", "no known kernel"},
		"no name":                   {manager + "name", os.RemoveAll, "none", "name"},
		"status is binary":          {manager + "status", sysroot.Binary, "all", "status"},
		"no status":                 {manager + "status", os.RemoveAll, "all", ""},
	} {
		tree := fpgatest.Tree(t, fpgatree.NewPlainMixed())
		move := func(path string) string { return renumbered(t, tree, path) }
		before := find(t, tree)
		if err := tree.Spoil(move(c.file), c.damage); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := at(tree, Defaults()).Read()
		problems := strings.Join(fpgatest.Problems(got.Problems), "\n")
		if (problems != "") != (c.want != "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s: problems %s, want %q", name, problems, c.want)
		}
		card, others := split(got)
		_, othersBefore := split(before)
		if diff := cmp.Diff(othersBefore, others); diff != "" {
			t.Errorf("%s: other cards\n%s", name, diff)
		}
		if kept := kept(card); kept != c.left {
			t.Errorf("%s: %s of the card is left, want %s: %+v", name, kept, c.left, card)
		}
	}
}

// renumbered returns a path with the numbers that the ZynqMP has on a machine with more.
func renumbered(t *testing.T, tree *fpgatree.Tree, path string) string {
	t.Helper()
	dir, err := tree.Manager(0)
	fpgatest.OK(t, err)
	regions, err := filepath.Glob(filepath.Join(tree.Sysfs(), "devices/platform/fpga-full/fpga_region/*"))
	if err != nil || len(regions) != 1 {
		t.Fatal(regions, err)
	}
	return strings.NewReplacer("fpga_manager/fpga0", "fpga_manager/"+filepath.Base(dir), "region0", filepath.Base(regions[0])).Replace(path)
}

// split returns the ZynqMP, nil if it is left out, and what the others are.
func split(got driver.Reading) (*driver.Card, []string) {
	var card *driver.Card
	others := driver.Reading{}
	for _, c := range got.Cards {
		if strings.HasPrefix(c.ID, "fpga-pcap-") {
			card = &c
			continue
		}
		others.Cards = append(others.Cards, c)
	}
	return card, sketch(others)
}

// kept describes the parts of the ZynqMP that are listed.
func kept(c *driver.Card) string {
	switch {
	case c == nil:
		return "none"
	case c.Regions[0].Env["FPGA_REGION"] == "":
		return "whole"
	case len(c.Regions[0].Nodes) == 1:
		return "one node"
	case len(c.Regions[0].Nodes) == 0:
		return "no nodes"
	}
	return "all"
}

// Two with one place are left out: they could not be distinguished after a reload.
func TestTwins(t *testing.T) {
	m := fpgatree.NewZynq()
	m.Plain = append(m.Plain, m.Plain[0])
	for i := range m.Plain {
		m.Plain[i].Node, m.Plain[i].Device = "", []string{"platform/card.0.auto", "platform/card.1.auto"}[i]
	}
	got := find(t, fpgatest.Tree(t, m))
	if len(got.Cards) != 0 || len(got.Problems) != 2 || !strings.Contains(fpgatest.Problems(got.Problems)[0], `2 managers are at "platform/card.auto"`) {
		t.Errorf("found %q; problems %q", sketch(got), fpgatest.Problems(got.Problems))
	}
	m = fpgatree.NewPlainPCI()
	m.Plain[0].Regions = []fpgatree.PlainRegion{{Device: "r.0.auto"}, {Device: "r.1.auto"}, {Device: "s.2.auto"}}
	got = find(t, fpgatest.Tree(t, m))
	if len(got.Cards) != 1 || len(got.Cards[0].Regions) != 1 || len(got.Problems) != 2 || !strings.Contains(fpgatest.Problems(got.Problems)[0], "2 regions are at one place") {
		t.Errorf("found %q; problems %q", sketch(got), fpgatest.Problems(got.Problems))
	}
}

// A machine that changes while it is read is read again; values from before are not in the
// result, and a machine that never stops changing is reported.
func TestTorn(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewPlainMixed())
	before := find(t, tree)
	passes := 0
	got := read(tree.Sysfs(), Defaults(), sysfs.Read, func() {
		if passes++; passes == 1 {
			if err := tree.ReloadPlain(3, 1, 2, 0); err != nil {
				t.Error(err)
			}
		}
	})
	if got.Unstable || len(got.Problems) > 0 || !cmp.Equal(sketch(got), sketch(before)) {
		t.Errorf("found %q, problems %q", sketch(got), fpgatest.Problems(got.Problems))
	}
	passes = 0
	got = read(tree.Sysfs(), Defaults(), sysfs.Read, func() {
		passes++
		if err := tree.ReloadPlain([][]int{{0}, {1}, {2}, {}}[passes%4]...); err != nil {
			t.Error(err)
		}
	})
	if !got.Unstable {
		t.Errorf("after %d passes it is stable: %+v", passes, got)
	}
}
