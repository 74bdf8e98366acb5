package alveo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const loaded = "6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21"

// newDriver returns a driver on a tree, with xocl's reactions to writes.
func newDriver(tree *fpgatree.Tree, s Settings) *Driver {
	d := New(sdk.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: "/proc"}, s)
	d.write, d.interval = tree.WriteShutdown, 1e6
	return d
}

// one returns the only card that a driver finds.
func one(t testing.TB, d *Driver) driver.Card {
	t.Helper()
	r := d.Read()
	if len(r.Cards) != 1 || len(r.Problems) != 0 || r.Unstable || r.Unloaded {
		t.Fatalf("there are %d cards, problems %v, unstable %v, unloaded %v", len(r.Cards), r.Problems, r.Unstable, r.Unloaded)
	}
	return r.Cards[0]
}

// Each kind of card is found with its functions, names, IDs and nodes.
func TestCards(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveos())
	r := newDriver(tree, Settings{}).Read()
	var got []string
	for _, c := range r.Cards {
		line := fmt.Sprintf("%s %q %s numa %d %s %v", c.ID, c.Model, c.PCI.Address, c.PCI.NUMANode, c.Board, c.Management)
		for _, g := range c.Regions {
			line += fmt.Sprintf("; %s %s %s %s %v %q %q", g.ID, g.Name, g.State, g.Kind, g.Nodes, g.Function, g.Interface)
		}
		got = append(got, line)
	}
	want := []string{
		`fpga-0000-61-00-0 "AMD FPGA aws-vu9p-f1" 0000:61:00.0 numa 1 fpga-0000-61-00-0 []; fpga-0000-61-00-0-user xilinx_aws-vu9p-f1_dynamic-shell-0 unloaded platform [/dev/dri/renderD132] "" ""`,
		`fpga-21770200K00A "AMD Alveo U50" 0000:11:00.1 numa 0 fpga-21770200K00A [/dev/xclmgmt4352]; fpga-21770200K00A-user xilinx_u50_gen3x16_xdma_base_5-0 unloaded platform [/dev/dri/renderD128] "" "b7ac1abe1e3e4cb686cc4a2b8f3d5a7d"`,
		`fpga-21770201K01A "AMD Alveo U200" 0000:21:00.1 numa 1 fpga-21770201K01A [/dev/xclmgmt8448]; fpga-21770201K01A-user xilinx_u200_xdma_201830_2-1561465320 loaded platform [/dev/dri/renderD129] "6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21" ""`,
		`fpga-21770202K02A "AMD Alveo U250" 0000:31:00.1 numa 0 fpga-21770202K02A [/dev/xclmgmt12544]; fpga-21770202K02A-user xilinx_u250_gen3x16_xdma_shell_4_1-0 unloaded platform [/dev/dri/renderD130] "" "f2b82d53372f45a4bbe9f3df2cb9d1c4"`,
		`fpga-21770203K03A "AMD Alveo U280" 10000:41:00.1 numa 1 fpga-21770203K03A [/dev/xclmgmt16640]; fpga-21770203K03A-user xilinx_u280_xdma_201920_3-1579649056 unloaded platform [/dev/dri/renderD131] "" ""`,
		`fpga-21770204K04A "AMD Alveo U55C" 0000:51:00.0 numa 0 fpga-21770204K04A [/dev/xclmgmt20736]`,
	}
	if len(r.Problems) > 0 || r.Unloaded || r.Unstable {
		t.Errorf("problems %v, unloaded %v, unstable %v", r.Problems, r.Unloaded, r.Unstable)
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("the cards are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			break
		}
	}
	for _, c := range r.Cards {
		for _, node := range slices.Concat(c.Management, nodesOf(c)) {
			if _, err := os.Stat(filepath.Join(tree.Root, node)); err != nil {
				t.Errorf("card %s has a node that is not there: %v", c.ID, err)
			}
		}
		if len(c.Faults) > 0 {
			t.Errorf("card %s has %v", c.ID, c.Faults)
		}
		if _, err := os.Stat(filepath.Join(tree.Sysfs(), c.Dir, "vendor")); err != nil {
			t.Errorf("card %s is not at %s: %v", c.ID, c.Dir, err)
		}
	}
}

func nodesOf(c driver.Card) []string {
	var all []string
	for _, g := range c.Regions {
		all = append(all, g.Nodes...)
	}
	return all
}

// Cards of other vendors' drivers, and cards without a driver, are left out. Only without the
// driver that is absent.
func TestOthers(t *testing.T) {
	for name, m := range map[string]fpgatree.Machine{"intel": fpgatree.NewMixed(), "none": {}} {
		if r := newDriver(fpgatest.Tree(t, m), Settings{}).Read(); len(r.Cards) != 0 || len(r.Problems) != 0 || !r.Unloaded {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r := newDriver(fpgatest.Tree(t, fpgatree.NewVendors()), Settings{}).Read()
	if len(r.Cards) != 2 || len(r.Problems) != 0 || r.Cards[0].ID != "fpga-21770205K01Y" || r.Cards[1].ID != "fpga-XFL1RTOJJAZX" {
		t.Errorf("beside Intel's cards: %+v", r)
	}
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U50))
	fpgatest.OK(t, tree.ReloadXRT())
	if r := newDriver(tree, Settings{}).Read(); len(r.Cards) != 0 || len(r.Problems) != 0 || r.Unloaded {
		t.Errorf("cards without a driver: %+v", r)
	}
	if r := New(sdk.HostPaths{Sysfs: "/no/such/sys"}, Settings{}).Read(); !r.Unloaded {
		t.Errorf("without sysfs: %+v", r)
	}
}

// In a virtual machine no other function reports the serial number during a reset. An unknown
// card has no ID then; a known one keeps it.
func TestIDsInReset(t *testing.T) {
	m := fpgatree.NewAlveo(fpgatree.U250)
	m.Alveos[0].UserOnly = true
	tree := fpgatest.Tree(t, m)
	d := newDriver(tree, Settings{})
	before := one(t, d)
	fpgatest.OK(t, tree.BeginReset(0))
	if c := one(t, d); c.ID != before.ID || c.Regions[0].State != driver.Busy || c.Regions[0].Name != "" || len(c.Regions[0].Nodes) != 1 {
		t.Errorf("during a reset it is %+v", c)
	}
	young := newDriver(tree, Settings{})
	r := young.Read()
	if len(r.Cards) != 0 || len(r.Problems) != 1 || !r.Problems[0].Lost || !errors.Is(r.Problems[0].Err, errUnknown) {
		t.Errorf("a card first seen during a reset: %+v", r)
	}
	fpgatest.OK(t, tree.EndReset(0))
	if c := one(t, young); c.ID != before.ID {
		t.Errorf("afterwards it is %s, want %s", c.ID, before.ID)
	}
}

// A card keeps its ID in another slot. One that reports its serial number late keeps its first
// ID; one that cannot report it has none; another card in its place has another one.
func TestIDsChange(t *testing.T) {
	m := fpgatree.NewAlveo(fpgatree.U280)
	before := one(t, newDriver(fpgatest.Tree(t, m), Settings{}))
	m.Alveos[0].Address.Bus = 0x99
	if c := one(t, newDriver(fpgatest.Tree(t, m), Settings{})); c.ID != before.ID {
		t.Errorf("in another slot it is %s, want %s", c.ID, before.ID)
	}
	m = fpgatree.NewAlveo(fpgatree.U280)
	m.Alveos[0].UserOnly, m.Alveos[0].Serial = true, ""
	tree := fpgatest.Tree(t, m)
	d := newDriver(tree, Settings{})
	if c := one(t, d); c.ID != "fpga-0000-65-00-0" {
		t.Errorf("without a serial number it is %s", c.ID)
	}
	fpgatest.OK(t, tree.SetAlveo(0, fpgatree.User, "xmc/serial_num", "AAA1\n"))
	if c := one(t, d); c.ID != "fpga-0000-65-00-0" || c.Serial != "AAA1" || c.Board != "fpga-AAA1" {
		t.Errorf("once it says one it is %+v", c)
	}
	fpgatest.OK(t, tree.SetAlveo(0, fpgatree.User, "xmc/serial_num", "BBB2\n"))
	if c := one(t, d); c.ID != "fpga-BBB2" {
		t.Errorf("another card is %s", c.ID)
	}
	for _, text := range []string{"\x01\x02", "a b", strings.Repeat("9", 41), "ü"} {
		fpgatest.OK(t, tree.SetAlveo(0, fpgatree.User, "xmc/serial_num", text))
		if c := one(t, d); c.ID != "fpga-BBB2" {
			t.Errorf("with the serial number %q it is %s", text, c.ID)
		}
		if r := newDriver(tree, Settings{}).Read(); len(r.Cards) != 0 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Err.Error(), "is no serial number") {
			t.Errorf("with the serial number %q: %+v", text, r)
		}
	}
}

// A file without which a card cannot be identified is a problem that names it.
func TestHalf(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		do   sysroot.Damage
		want string
	}{
		"no name":      {"rom/VBNV", os.Remove, "VBNV"},
		"empty name":   {"rom/VBNV", sysroot.Empty, "want the name of a shell"},
		"no time":      {"rom/timestamp", sysroot.Binary, "timestamp"},
		"no rom":       {"rom/VBNV", func(p string) error { return os.RemoveAll(filepath.Dir(p)) }, "no feature ROM"},
		"no node":      {"drm", os.RemoveAll, "no render node"},
		"both":         {"mgmt_pf", func(p string) error { return os.WriteFile(p, nil, 0o600) }, "both user_pf and mgmt_pf"},
		"PCI":          {"class", sysroot.Binary, "class"},
		"another ROM":  {"rom.u.99", func(p string) error { return os.Mkdir(p, 0o750) }, "2 feature ROMs"},
		"no directory": {"rom/VBNV", sysroot.Directory, "not a regular file"},
	} {
		tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
		fpgatest.OK(t, tree.SpoilAlveo(0, fpgatree.User, c.file, c.do))
		r := newDriver(tree, Settings{}).Read()
		if len(r.Problems) == 0 || !r.Problems[0].Lost || !strings.Contains(r.Problems[0].Err.Error(), c.want) || r.Problems[0].Device != "0000:65:00.1" {
			t.Errorf("%s: problems %v, want %q", name, r.Problems, c.want)
		}
		for _, card := range r.Cards {
			if len(card.Regions) > 0 {
				t.Errorf("%s: it is %+v", name, card)
			}
		}
	}
}

// An error of the kernel that means "no value" is no problem; another one, and a value that is
// none, is a problem, and the card stays.
func TestErrors(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U200))
	for _, c := range []struct {
		file    string
		errno   error
		content string
		notes   int
	}{
		{"interface_uuids", unix.EINVAL, "", 0}, {"logic_uuids", unix.EINVAL, "", 0}, {"xclbinuuid", unix.ENODEV, "", 0}, {"xclbinuuid", unix.EIO, "", 1},
		{"interface_uuids", unix.EIO, "", 2}, {"board_name", unix.EIO, "", 2}, {"ready", unix.ENOENT, "", 0}, {"serial_num", unix.ENODEV, "", 0},
		{"dev_offline", nil, "3\n", 2}, {"status", nil, "many\n", 1}, {"status", unix.EIO, "", 1}, {"ecc_ce_cnt", nil, "many\n", 4},
	} {
		i := read(tree.Sysfs(), func(path string, limit int) ([]byte, error) {
			switch {
			case filepath.Base(path) != c.file:
				return sysfs.Read(path, limit)
			case c.errno != nil:
				return nil, &os.PathError{Op: "read", Path: path, Err: c.errno}
			}
			return []byte(c.content), nil
		}, func() {})
		if len(i.Cards) != 1 || len(i.Problems) != c.notes {
			t.Errorf("%s %v: %d cards, problems %v, want %d", c.file, c.errno, len(i.Cards), i.Problems, c.notes)
		}
	}
}
