package intel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// others returns the cards but those of a slot.
func others(inventory Inventory, slot string) []Card {
	var all []Card
	for _, c := range inventory.Cards {
		if !strings.HasPrefix(c.PCI.Address.String(), slot) {
			all = append(all, c)
		}
	}
	return all
}

// Each damage affects at most its card or its port, with a problem that has the reason; the
// other cards are as before.
func TestDamage(t *testing.T) {
	const (
		pf, vf = "sys/bus/pci/devices/10000:e1:00.0/", "sys/bus/pci/devices/10000:e1:00.1/"
		region = pf + "fpga_region/region2/"
		fme    = region + "dfl-fme.1/"
		port   = region + "dfl-port.1/"
		nested = fme + "dfl-fme-region.1/fpga_region/region3/"
	)
	type one struct {
		file   string
		damage sysroot.Damage
		left   []string // ports of the board that are left
		want   string   // in a problem; empty for no problem
	}
	pf2, vf0, vf1 := "fpga-10000-e1-00-0-port-2", "fpga-10000-e1-00-1-port-0", "fpga-10000-e1-00-2-port-1"
	every := []string{pf2, vf0, vf1}
	for name, c := range map[string]one{
		"no class of PCI":              {pf + "class", os.RemoveAll, nil, "class"},
		"virtual function's device":    {vf + "device", sysroot.Binary, []string{pf2, vf1}, "device"},
		"physfn to nothing known":      {vf + "physfn", sysroot.Dangling, []string{pf2, vf1}, "physfn"},
		"engine without a node":        {fme + "dev", os.RemoveAll, nil, "dfl-fme.1/dev"},
		"engine's node is none":        {fme + "dev", fpgatest.Text("245\n"), nil, "no device number"},
		"card off the bus":             {fme + "bitstream_id", fpgatest.Text("0xffffffffffffffff\n"), nil, "does not answer"},
		"interface all ones":           {nested + "compat_id", fpgatest.Text(fpgatree.NoAFU + "\n"), nil, "does not answer"},
		"interface of another":         {nested + "compat_id", fpgatest.Text("b5d72a3cc8b04939912cf715e5dc10ca\n"), nil, "want one"},
		"interface of 31 digits":       {nested + "compat_id", fpgatest.Text("a5d72a3cc8b04939912cf715e5dc10c\n"), nil, "no ID of 32"},
		"one region without interface": {nested + "compat_id", os.RemoveAll, every, ""},
		"port without number":          {port + "id", os.RemoveAll, []string{vf0, vf1}, "dfl-port.1/id"},
		"port without a node":          {port + "dev", os.RemoveAll, []string{vf0, vf1}, "dfl-port.1/dev"},
		"port number 64":               {port + "id", fpgatest.Text("64\n"), []string{vf0, vf1}, "want a port's number"},
		"AFU of 33 digits":             {port + "afu_id", fpgatest.Text(fpgatree.NoAFU + "f\n"), []string{vf0, vf1}, "no ID of 32"},
		"AFU is NUL":                   {port + "afu_id", fpgatest.Text("\x00\x00\x00\x00"), every, ""},
		"more ports than can be":       {fme + "ports_num", fpgatest.Text("65\n"), every, "more than 64"},
		"register without a number":    {fme + "errors/fme_errors", fpgatest.Text("many\n"), every, "no number"},
		"no registers":                 {fme + "errors", os.RemoveAll, every, ""},
		"no power state":               {port + "power_state", os.RemoveAll, every, ""},
		"power state of 9 bits":        {port + "power_state", fpgatest.Text("0x100\n"), every, "more than 255"},
		"manager failed":               {fme + "dfl-fme-mgr.1/fpga_manager/fpga1/state", fpgatest.Text("write error\n"), every, ""},
		"hwmon is a loop":              {fme + "hwmon", sysroot.Loop, every, "symbolic links"},
		"hwmon's name":                 {fme + "hwmon/hwmon1/name", sysroot.Binary, every, ""},
		"alarm is no flag":             {fme + "hwmon/hwmon1/temp1_crit_alarm", fpgatest.Text("7\n"), every, "more than 1"},
		"port is a link":               {port + "../dfl-port.7", func(p string) error { return os.Symlink("dfl-port.1", p) }, every, ""},
		"region in itself":             {region + "dfl-fme.7", func(p string) error { return os.Symlink(".", p) }, every, ""},
		"class link in a circle":       {"sys/class/fpga_region/region2", sysroot.Loop, []string{vf0, vf1}, "leads to no device"},
		"class link to nothing":        {"sys/class/fpga_region/region2", sysroot.Dangling, []string{vf0, vf1}, "leads to no device"},
		"class link is a directory":    {"sys/class/fpga_region/region2", sysroot.Directory, []string{vf0, vf1}, "no link"},
		"class link is missing":        {"sys/class/fpga_region/region2", os.RemoveAll, []string{vf0, vf1}, "has no entry of it"},
		"region of something else": {"sys/class/fpga_region/region99", func(p string) error {
			return os.Symlink("../../devices/platform/base_fpga_region/fpga_region/region99", p)
		}, every, ""},
		"region of no class": {"sys/class/fpga_region/region99", func(p string) error {
			return os.Symlink("../../devices/pci10000:e0/10000:e0:01.1/10000:e1:00.0/other/region99", p)
		}, every, ""},
		"class has something else": {"sys/class/fpga_region/region2x", sysroot.Loop, every, ""},
		"AFU is a FIFO":            {port + "afu_id", sysroot.FIFO, []string{vf0, vf1}, "afu_id"},
		"interface is binary":      {nested + "compat_id", sysroot.Binary, nil, "compat_id"},
		"no vendor":                {pf + "vendor", os.RemoveAll, nil, "vendor"},
		"register is a directory":  {fme + "errors/catfatal_errors", sysroot.Directory, every, "catfatal_errors"},
	} {
		m := fpgatree.NewMixed()
		m.Cards = []fpgatree.Card{m.Cards[0], m.Cards[5]}
		m.Cards[1].Padded = false // so that damage to the last digit is one
		tree := fpgatest.Tree(t, m)
		before := find(t, tree)
		if err := tree.Spoil(c.file, c.damage); err != nil {
			t.Error(name, err)
			continue
		}
		after := find(t, tree)
		if diff := cmp.Diff(others(before, "10000:e1:00"), others(after, "10000:e1:00")); diff != "" {
			t.Errorf("%s: other cards differ:\n%s", name, diff)
		}
		var left []string
		for _, card := range after.Cards {
			for _, p := range card.Ports {
				if strings.HasPrefix(p.ID, "fpga-10000-") {
					left = append(left, p.ID)
				}
			}
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: %q are left, want %q; problems %q", name, left, c.left, fpgatest.Problems(after.Problems))
		}
		lost := slices.ContainsFunc(after.Problems, func(p driver.Problem) bool { return p.Lost })
		if gone := len(c.left) < 3 && c.want != ""; lost != gone {
			t.Errorf("%s: something is lost: %t, want %t; problems %q", name, lost, gone, fpgatest.Problems(after.Problems))
		}
		if (c.want == "") != (len(after.Problems) == 0) || !strings.Contains(strings.Join(fpgatest.Problems(after.Problems), "\n"), c.want) {
			t.Errorf("%s: problems %q, want %q", name, fpgatest.Problems(after.Problems), c.want)
		}
	}
}

// A card that is missing in the driver's class has a problem, which says that a driver is bound only if one is: while a
// driver is unbound, the kernel removes the link to it before the driver removes its files (driver_sysfs_remove in
// drivers/base/dd.c).
func TestNoEntryInTheClass(t *testing.T) {
	for _, m := range []fpgatree.Machine{fpgatree.NewD5005(), fpgatree.NewArria10()} {
		for _, bound := range []bool{true, false} {
			tree := fpgatest.Tree(t, m)
			at := m.Cards[0].Address.String()
			dir := filepath.Join(tree.Sysfs(), "bus/pci/devices", at)
			for class := range layouts {
				fpgatest.OK(t, os.RemoveAll(filepath.Join(tree.Sysfs(), "class", class)))
				fpgatest.OK(t, os.MkdirAll(filepath.Join(tree.Sysfs(), "class", class), 0o755))
			}
			if link := filepath.Join(dir, "driver"); !bound {
				fpgatest.OK(t, os.RemoveAll(link))
			}
			problems := fpgatest.Problems(find(t, tree).Problems)
			if len(problems) != 1 || !strings.Contains(problems[0], "has no entry of it") || strings.Contains(problems[0], "no driver is bound to it") == bound {
				t.Errorf("%s, a driver is bound: %t: problems %q", at, bound, problems)
			}
		}
	}
}

// Cards or ports that cannot be distinguished are left out.
func TestTwins(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewMixed())
	region := "sys/bus/pci/devices/0000:05:00.0/fpga_region/region0"
	twin := func(from, to string) {
		t.Helper()
		fpgatest.OK(t, os.CopyFS(filepath.Join(tree.Root, to), os.DirFS(filepath.Join(tree.Root, from))))
	}
	twin(region+"/dfl-port.0", region+"/dfl-port.77")
	got := find(t, tree)
	if len(got.Cards) != 12 || len(got.Cards[0].Ports) != 0 || len(got.Problems) != 2 || !strings.Contains(fpgatest.Problems(got.Problems)[1], "2 ports of the card have the number 0") {
		t.Errorf("two ports with one number: %v; problems %q", got.Cards[0].Ports, fpgatest.Problems(got.Problems))
	}
	twin(region+"/dfl-fme.0", region+"/dfl-fme.78")
	got = find(t, tree)
	if len(got.Cards) != 11 || !strings.Contains(strings.Join(fpgatest.Problems(got.Problems), " "), "2 management engines") {
		t.Errorf("two engines: %d cards; problems %q", len(got.Cards), fpgatest.Problems(got.Problems))
	}
	tree = fpgatest.Tree(t, fpgatree.NewD5005())
	fpgatest.OK(t, os.Symlink("../../devices/pci0000:04/0000:04:01.1/0000:05:00.0/fpga_region/region8", filepath.Join(tree.Sysfs(), "class/fpga_region/region8")))
	got = find(t, tree)
	if len(got.Cards) != 0 || !strings.Contains(strings.Join(fpgatest.Problems(got.Problems), " "), "regions region0 and region8") {
		t.Errorf("two regions: %v; problems %q", sketches(got), fpgatest.Problems(got.Problems))
	}
}
