package intel

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// find reads a machine that does not change.
func find(t testing.TB, tree *fpgatree.Tree) Inventory {
	t.Helper()
	got, err := Read(tree.Sysfs())
	if err != nil || got.Unstable {
		t.Fatalf("%v, unstable %t", err, got.Unstable)
	}
	for _, c := range got.Cards {
		_, problems := Sensors(tree.Sysfs(), c.Dir)
		got.Problems = append(got.Problems, problems...)
	}
	return got
}

func address(t testing.TB, s string) pci.Address {
	t.Helper()
	at, err := pci.ParseAddress(s)
	fpgatest.OK(t, err)
	return at
}

// sketch returns what a card is, in a line.
func sketch(c Card) string {
	line := fmt.Sprintf("%s %s %s numa=%d board=%s", c.ID, c.Family, c.Region, c.PCI.NUMANode, c.Board)
	if c.Physical != nil {
		line += " of " + c.Physical.String()
	}
	if c.Interface != "" {
		line += " if=" + c.Interface[:4]
	}
	if e := c.Engine; e != nil {
		line += fmt.Sprintf(" %s=%d:%d bits=%x meta=%x ports=%d %s", e.Node.Name, e.Node.Major, e.Node.Minor, e.BitstreamID, e.Metadata, e.Ports, e.Manager)
	}
	for _, p := range c.Ports {
		line += fmt.Sprintf("; %s %s=%d:%d %s", strings.TrimPrefix(p.ID, c.ID), p.Node.Name, p.Node.Major, p.Node.Minor, p.State)
		if p.AFU != "" {
			line += " " + p.AFU[:4]
		}
	}
	return line
}

func sketches(inventory Inventory) []string {
	var all []string
	for _, c := range inventory.Cards {
		all = append(all, sketch(c))
	}
	return all
}

// Captures of real cards are read with all their irregularities.
func TestCaptures(t *testing.T) {
	for name, want := range map[string][]string{
		"mock_sys_dfl_d5005_nlb0": {"fpga-0000-05-00-0 dfl region0 numa=-1 board=0000:05:00.0 if=9346 dfl-fme.0=245:0 bits=202000200000237 meta=1910174 ports=1 unknown; -port-0 dfl-port.0=244:0 loaded f7df"},
		"mock_sys_dfl_n3000_nlb0": {"fpga-0000-05-00-0 dfl region0 numa=-1 board=0000:05:00.0 if=a5d7 dfl-fme.0=245:0 bits=202000200000237 meta=1910174 ports=1 unknown; -port-0 dfl-port.0=244:0 loaded 9aef"},
		"mock_sys_dfl_n6000_sku0_nlb0": {
			"fpga-0000-01-00-0 dfl region0 numa=-1 board=0000:01:00.0 if=98b4 dfl-fme.0=240:0 bits=501020222df1b7a meta=2110055 ports=1 unknown; -port-0 dfl-port.0=239:0 unreported",
			"fpga-0000-01-00-1 dfl region1 numa=-1 board=0000:01:00.0",
			"fpga-0000-01-00-2 dfl region2 numa=-1 board=0000:01:00.0",
			"fpga-0000-01-00-4 dfl region3 numa=-1 board=0000:01:00.0",
		},
		"mock_sys_tmp-dcp-rc-nlb3": {"fpga-0000-05-00-0 opae intel-fpga-dev.0 numa=-1 board=0000:05:00.0 if=f64e intel-fpga-fme.0=245:0 bits=113000200000177 meta=1809211 ports=1 unknown; -port-0 intel-fpga-port.0=244:0 loaded d842"},
	} {
		t.Run(name, func(t *testing.T) {
			archive := sysroot.Captured(t, "fpga/"+name+".tar.gz")
			tree := fpgatest.Captured(t, archive)
			got := find(t, tree)
			if diff := cmp.Diff(want, sketches(got)); diff != "" || len(got.Problems) > 0 {
				t.Errorf("problems %q; cards differ (-want +got):\n%s", fpgatest.Problems(got.Problems), diff)
			}
			for _, c := range got.Cards {
				for _, p := range c.Ports {
					if known := p.State != Unreported; known != (len(p.Registers) == 3) { // the N6000 has none
						t.Errorf("registers of the port are %v", p.Registers)
					}
				}
				if c.Engine != nil && len(c.Engine.Registers) < 6 {
					t.Errorf("registers of the engine are %v", c.Engine.Registers)
				}
				if sensors, _ := Sensors(tree.Sysfs(), c.Dir); c.Engine != nil && len(sensors) == 0 {
					t.Errorf("%s has no sensors", c.ID)
				}
			}
		})
	}
}

// A port in reset stays listed; a card that its driver released is left out.
func TestAnswers(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewMixed())
	refuse := func(part string, err error) func(string, int) ([]byte, error) {
		return func(path string, limit int) ([]byte, error) {
			if strings.Contains(path, "/0000:3b:00.0/") && strings.HasSuffix(path, part) {
				return nil, &fs.PathError{Op: "read", Path: path, Err: err}
			}
			return sysfs.Read(path, limit)
		}
	}
	for name, c := range map[string]struct {
		file  string
		err   error
		cards int
		state State
		lost  string
	}{
		"port in reset":           {"afu_id", unix.EBUSY, 12, Busy, ""},
		"no AFU ID":               {"afu_id", unix.ENOENT, 12, Unreported, ""},
		"port lets go":            {"afu_id", unix.ENODEV, 12, "", "0000:3b:00.0 dfl-port.1"},
		"no compatible ID":        {"compat_id", unix.ENOENT, 12, Loaded, ""},
		"engine lets go":          {"dfl-fme.1/dev", unix.ENODEV, 11, "", "0000:3b:00.0"},
		"interface not to be had": {"compat_id", unix.EIO, 11, "", "0000:3b:00.0"},
		"sensor without a value":  {"temp1_input", unix.ENODATA, 12, Loaded, ""},
		"register not to be had":  {"catfatal_errors", unix.EIO, 12, Loaded, ""},
	} {
		got, err := read(reader{root: tree.Sysfs(), file: refuse(c.file, c.err)}, func() {})
		if err != nil || len(got.Cards) != c.cards {
			t.Errorf("%s: %d cards, want %d; %v", name, len(got.Cards), c.cards, err)
		}
		var state State
		for _, card := range got.Cards {
			if card.ID == "fpga-0000-3b-00-0" && len(card.Ports) == 1 {
				state = card.Ports[0].State
			}
		}
		lost := ""
		for _, p := range got.Problems {
			if p.Lost {
				lost += p.Device
			}
		}
		if state != c.state || lost != c.lost {
			t.Errorf("%s: the port is %q, want %q; lost %q, want %q; problems %q", name, state, c.state, lost, c.lost, fpgatest.Problems(got.Problems))
		}
	}
}

// Ports are sorted by their number, whatever the driver's numbers are.
func TestManyPorts(t *testing.T) {
	m := fpgatree.NewD5005()
	m.Cards[0].Ports = 12
	got := find(t, fpgatest.Tree(t, m))
	for i, p := range got.Cards[0].Ports {
		if p.Number != i || p.ID != fmt.Sprintf("fpga-0000-05-00-0-port-%d", i) {
			t.Errorf("port %d is %s, number %d", i, p.ID, p.Number)
		}
	}
	if n := len(got.Cards[0].Ports); n != 12 || got.Cards[0].Engine.Ports != 12 || len(got.Problems) > 0 {
		t.Errorf("%d ports; problems %q", n, fpgatest.Problems(got.Problems))
	}
}
