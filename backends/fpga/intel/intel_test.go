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

// both returns a reader of the cards of both families.
func both(tree *fpgatree.Tree) reader { return reader{root: tree.Sysfs(), file: sysfs.Read} }

// find reads a machine that does not change.
func find(t testing.TB, tree *fpgatree.Tree) Inventory {
	t.Helper()
	got, err := read(both(tree), func() {})
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

// sketches returns the IDs of cards and ports.
func sketches(inventory Inventory) []string {
	var all []string
	for _, c := range inventory.Cards {
		all = append(all, c.ID)
		for _, p := range c.Ports {
			all = append(all, p.ID)
		}
	}
	return all
}

// Captures of real cards are read with all their irregularities, and have no fault.
func TestCaptures(t *testing.T) {
	for name, want := range map[string][]string{
		"mock_sys_dfl_d5005_nlb0": {
			"fpga-0000-05-00-0 of fpga-0000-05-00-0, Intel FPGA PAC D5005, numa -1, by /dev/dfl-fme.0",
			"  fpga-0000-05-00-0-port-0: loaded, region-9346116da52d5ca8b06aa9a389ef7c8d, /dev/dfl-port.0, af-934.f7d.k0YRbaUtXKiwaqmjie98jfffQFy9es9yIvFEsLk6zRg, programmable",
			"  shell 0x202000200000237 of 0x1910174",
		},
		"mock_sys_dfl_n3000_nlb0": {
			"fpga-0000-05-00-0 of fpga-0000-05-00-0, Intel FPGA PAC N3000, numa -1, by /dev/dfl-fme.0",
			"  fpga-0000-05-00-0-port-0: loaded, region-a5d72a3cc8b04939912cf715e5dc10ca, /dev/dfl-port.0, af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI, programmable",
			"  shell 0x202000200000237 of 0x1910174",
		},
		"mock_sys_dfl_n6000_sku0_nlb0": {
			"fpga-0000-01-00-0 of fpga-0000-01-00-0, Intel FPGA SmartNIC N6000, numa -1, by /dev/dfl-fme.0",
			"  fpga-0000-01-00-0-port-0: unreported, region-98b4d5bc98ba5f4b98d9a2841ccf11b0, /dev/dfl-port.0, programmable",
			"  shell 0x501020222df1b7a of 0x2110055",
			"fpga-0000-01-00-1 of fpga-0000-01-00-0, Intel FPGA SmartNIC N6000, numa -1, by ",
			"fpga-0000-01-00-2 of fpga-0000-01-00-0, Intel FPGA SmartNIC N6000, numa -1, by ",
			"fpga-0000-01-00-4 of fpga-0000-01-00-0, Intel FPGA SmartNIC N6000, numa -1, by ",
		},
		"mock_sys_tmp-dcp-rc-nlb3": {
			"fpga-0000-05-00-0 of fpga-0000-05-00-0, Intel PAC Arria 10 GX, numa -1, by /dev/intel-fpga-fme.0",
			"  fpga-0000-05-00-0-port-0: loaded, region-f64e598bea11517fa28e7bc65d885104, /dev/intel-fpga-port.0, af-f64.d84.9k5Zi-oRUX-ijnvGXYhRBNhCTcSko8QT-J5DNoP5BAs, programmable",
			"  shell 0x113000200000177 of 0x1809211",
		},
	} {
		archive := sysroot.Captured(t, "fpga/"+name+".tar.gz")
		tree := fpgatest.Captured(t, archive)
		family := DFL
		if strings.Contains(name, "tmp-dcp") {
			family = OPAE
		}
		d := on(tree, family)
		var got []string
		for _, c := range reading(t, d).Cards {
			got = append(got, drawn(c)...)
			if len(c.Management) == 0 {
				continue
			}
			got = append(got, fmt.Sprintf("  shell %s of %s", c.Attributes["bitstreamID"].GetStringValue(), c.Attributes["bitstreamMetadata"].GetStringValue()))
			if sensors := d.Sense(c).Sensors; len(c.Counts) != 5 || len(sensors) == 0 {
				t.Errorf("%s: it has the registers %v and the sensors %v", name, c.Counts, sensors)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: cards differ (-want +got):\n%s", name, diff)
		}
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
