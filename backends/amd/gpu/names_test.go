package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/sysroot"
)

const marketing = `# List of AMDGPU IDs
#
# device_id,	revision_id,	product_name

1.0.0
740F,	02,	AMD Instinct of another list
7FFE,	02,	AMD Instinct of the future
7481,   C7,     AMD Steam Machine
74A1,	00,	AMD Instinct MI300X, in a list
74A1,	XX,	no revision
74A15,	00,	no device
74A2,	00
74A3,	00,	` + "\x1b[31mred\n"

const pciIDs = `# List of PCI ID's
1001  Kolter Electronic
	740f  of another vendor
1002  Advanced Micro Devices, Inc. [AMD/ATI]
	6860  Vega 10 [Instinct MI25]
	740c  Aldebaran/MI200 [Instinct MI250X/MI250]
# a comment
	740f  Aldebaran/MI200 [Instinct MI210]
		1002 0c34  a subsystem
	74a1  Aqua Vanjaram [Instinct MI300X]
	9999  AMD of the future
	zzzz  no number
	73ff
1022  Advanced Micro Devices, Inc. [AMD]
	6860  a bridge
`

// lists returns a root with lists of names below usr/share.
func lists(t *testing.T, files map[string]string) string {
	t.Helper()
	root := sysroot.NewFiles(t)
	for name, content := range files {
		root.File("usr/share/"+name, content)
	}
	return root.Root
}

// The list that is part of the program goes before the machine's, that of marketing names
// before the PCI ID list, and that is by device only.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  map[marketed]string
	}{
		"both": {map[string]string{"libdrm/amdgpu.ids": marketing, "hwdata/pci.ids": pciIDs}, map[marketed]string{
			{0x740f, 2}: "AMD Instinct MI210", {0x740f, 1}: "AMD Instinct MI210", {0x7ffe, 2}: "AMD Instinct of the future", {0x7481, 0}: "",
			{0x74a1, 0}: "AMD Instinct MI300X", {0x74a1, 7}: "AMD Instinct MI300X", {0x6860, 0x77}: "AMD Instinct MI25",
			{0x74a2, 7}: "", {0x74a3, 0}: "", {0x9999, 0}: "AMD of the future", {0x73ff, 0}: "",
		}},
		"the other place":  {map[string]string{"misc/pci.ids": pciIDs}, map[marketed]string{{0x740c, 0x77}: "AMD Instinct MI250X/MI250"}},
		"no list":          {nil, map[marketed]string{{0x740f, 2}: "AMD Instinct MI210", {0x740f, 0x77}: ""}},
		"binary":           {map[string]string{"hwdata/pci.ids": "\x00\xff\n\t\x00", "libdrm/amdgpu.ids": "\x00,\xff,\x01"}, map[marketed]string{{0x740f, 0x77}: ""}},
		"longer than read": {map[string]string{"hwdata/pci.ids": pciIDs + strings.Repeat("#\n", listLimit/2)}, map[marketed]string{{0x740f, 0x77}: ""}},
	} {
		names := LoadNames(lists(t, c.files))
		for of, want := range c.want {
			if got := names.of(of.device, &of.revision); got != want {
				t.Errorf("%s: %04x revision %02x is %q, want %q", name, of.device, of.revision, got, want)
			}
		}
	}
}

// A name is the card's own, a list's, ours, or at least the number.
func TestProduct(t *testing.T) {
	names := LoadNames(lists(t, map[string]string{"libdrm/amdgpu.ids": marketing}))
	for name, c := range map[string]struct {
		own    string
		device uint16
		names  *Names
		want   string
	}{
		"the card's":  {"AMD Instinct MI210 OAM", 0x740f, names, "AMD Instinct MI210 OAM"},
		"a list's":    {"", 0x7ffe, names, "AMD Instinct of the future"},
		"ours":        {"", 0x740f, nil, "AMD Instinct MI210"},
		"number":      {"", 0x7abc, names, "AMD GPU 0x7abc"},
		"bad own":     {"\x1b[31m", 0x740f, nil, "AMD Instinct MI210"},
		"endless own": {strings.Repeat("x", 4000), 0x740f, nil, "AMD Instinct MI210"},
	} {
		m := amdtree.NewMI210()
		m.GPUs = m.GPUs[:1]
		m.GPUs[0].ProductName, m.GPUs[0].Model.Device = c.own, c.device
		got, err := Read(amdtree.New(t, m).Sysfs(), c.names)
		if err != nil || len(got.GPUs) != 1 || got.GPUs[0].Product != c.want {
			t.Errorf("%s: %+v, %v; want %q", name, got.GPUs, err, c.want)
		}
	}
}

// A revision that is missing or invalid is not revision 00: a card has the name that all revisions have, or one by its
// device alone.
func TestUnknownRevision(t *testing.T) {
	alone := LoadNames(lists(t, nil))
	withPCI := LoadNames(lists(t, map[string]string{"hwdata/pci.ids": "1002  AMD\n\t15bf  Phoenix1 [Radeon 700M Series]\n"}))
	for name, c := range map[string]struct {
		device uint16
		names  *Names
		want   string
	}{
		"one name for all": {0x740f, alone, "AMD Instinct MI210"},
		"by device":        {0x15bf, withPCI, "AMD Radeon 700M Series"}, // 00 is a Radeon 780M, 01 a 760M
		"in no list":       {0x15bf, alone, "AMD GPU 0x15bf"},
	} {
		m := amdtree.NewMI210()
		m.GPUs = m.GPUs[:1]
		m.GPUs[0].ProductName, m.GPUs[0].Model.Device, m.GPUs[0].Model.Revision = "", c.device, 1
		tree := amdtree.New(t, m)
		file := filepath.Join("sys/bus/pci/devices", m.GPUs[0].Address.String(), "revision")
		for _, damage := range []sysroot.Damage{os.RemoveAll, sysroot.Binary} {
			if err := tree.Spoil(file, damage); err != nil {
				t.Fatal(err)
			}
			got, err := Read(tree.Sysfs(), c.names)
			if err != nil || len(got.GPUs) != 1 || got.GPUs[0].Product != c.want {
				t.Errorf("%s: %+v, %v; want %q", name, got.GPUs, err, c.want)
			}
		}
	}
}

// Any content of a list results in a printable name.
func FuzzNames(f *testing.F) {
	f.Add(marketing)
	f.Add(pciIDs)
	f.Add("1002  x\n\t740f  [\n")
	f.Add("1002 ]\n\t1  ][\n\t2 []\n")
	f.Fuzz(func(t *testing.T, text string) {
		for of, name := range parseMarketing(text) {
			if name == "" || printable(name) != name {
				t.Errorf("%v is %q", of, name)
			}
		}
		for id, name := range parsePCI(text) {
			if name == "" || !strings.HasPrefix(name, "AMD ") {
				t.Errorf("%04x is %q", id, name)
			}
		}
	})
}
