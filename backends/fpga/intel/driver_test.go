package intel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// on returns the driver of a family on a tree, with no kernel behind the nodes.
func on(tree *fpgatree.Tree, family Family) *Driver {
	return NewDriver(sdk.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs()}, family, ioctl.Open)
}

// reading returns what the driver reads of a machine that does not change.
func reading(t testing.TB, d *Driver) driver.Reading {
	t.Helper()
	r := d.Read()
	if r.Unstable || r.Absent || len(r.Problems) > 0 {
		t.Fatalf("unstable %t, absent %t, problems %v", r.Unstable, r.Absent, r.Problems)
	}
	return r
}

// port returns a port of a machine, with its card.
func port(t testing.TB, d *Driver, id string) (driver.Card, driver.Region) {
	t.Helper()
	for _, c := range reading(t, d).Cards {
		for _, r := range c.Regions {
			if r.ID == id {
				return c, r
			}
		}
	}
	t.Fatalf("there is no port %s", id)
	return driver.Card{}, driver.Region{}
}

// drawn returns what a card is, in a line, and what its regions are in one each.
func drawn(c driver.Card) []string {
	lines := []string{fmt.Sprintf("%s of %s, %s, numa %d, by %s", c.ID, c.Board, c.Model, c.PCI.NUMANode, strings.Join(c.Management, " "))}
	if c.Virtual {
		lines[0] += ", virtual"
	}
	for _, f := range c.Faults {
		lines[0] += ", fault " + f.Code
	}
	for _, r := range c.Regions {
		line := fmt.Sprintf("  %s: %s, %s, %s", r.ID, r.State, r.Name, strings.Join(r.Nodes, " "))
		if r.Loaded != "" {
			line += ", " + r.Loaded
		}
		if r.Programmable {
			line += ", programmable"
		}
		lines = append(lines, line)
	}
	return lines
}

// Verifies the backend's view of cards of every kind, under each driver.
func TestDriverReads(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewMixed())
	for family, want := range map[Family][]string{
		DFL: {
			"fpga-0000-05-00-0 of fpga-0000-05-00-0, Intel FPGA PAC D5005, numa 0, by /dev/dfl-fme.0",
			"  fpga-0000-05-00-0-port-0: loaded, region-9346116da52d5ca8b06aa9a389ef7c8d, /dev/dfl-port.0, af-934.f7d.k0YRbaUtXKiwaqmjie98jfffQFy9es9yIvFEsLk6zRg, programmable",
			"fpga-0000-3b-00-0 of fpga-0000-3b-00-0, Intel FPGA PAC N3000, numa 1, by /dev/dfl-fme.1",
			"  fpga-0000-3b-00-0-port-0: loaded, region-a5d72a3cc8b04939912cf715e5dc10ca, /dev/dfl-port.1, af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI, programmable",
			"fpga-0000-86-00-0 of fpga-0000-86-00-0, Intel FPGA SmartNIC N6000, numa -1, by /dev/dfl-fme.2",
			"  fpga-0000-86-00-0-port-0: unreported, region-98b4d5bc98ba5f4b98d9a2841ccf11b0, /dev/dfl-port.2, programmable",
			"fpga-0000-86-00-1 of fpga-0000-86-00-0, Intel FPGA SmartNIC N6000, numa -1, by ",
			"fpga-0000-86-00-2 of fpga-0000-86-00-0, Intel FPGA SmartNIC N6000, numa -1, by ",
			"fpga-0000-86-00-4 of fpga-0000-86-00-0, Intel FPGA SmartNIC N6000, numa -1, by ",
			"fpga-0001-05-00-0 of fpga-0001-05-00-0, Intel FPGA PAC D5005, numa 0, by /dev/dfl-fme.3",
			"fpga-0001-05-00-1 of fpga-0001-05-00-0, Intel FPGA PAC D5005, numa 0, by /dev/dfl-fme.3, virtual",
			"  fpga-0001-05-00-1-port-0: unloaded, region-9346116da52d5ca8b06aa9a389ef7c8d, /dev/dfl-port.3, programmable",
			"fpga-10000-e1-00-0 of fpga-10000-e1-00-0, Intel FPGA PAC N3000, numa 0, by /dev/dfl-fme.4",
			"  fpga-10000-e1-00-0-port-2: loaded, region-a5d72a3cc8b04939912cf715e5dc10ca, /dev/dfl-port.4, af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI, programmable",
			"fpga-10000-e1-00-1 of fpga-10000-e1-00-0, Intel FPGA PAC N3000, numa 0, by /dev/dfl-fme.4, virtual",
			"  fpga-10000-e1-00-1-port-0: loaded, region-a5d72a3cc8b04939912cf715e5dc10ca, /dev/dfl-port.5, af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI, programmable",
			"fpga-10000-e1-00-2 of fpga-10000-e1-00-0, Intel FPGA PAC N3000, numa 0, by /dev/dfl-fme.4, virtual",
			"  fpga-10000-e1-00-2-port-1: loaded, region-a5d72a3cc8b04939912cf715e5dc10ca, /dev/dfl-port.6, af-a5d.9ae.pdcqPMiwSTmRLPcV5dwQyprv_l-EVwYSwADJZg2CQnI, programmable",
		},
		OPAE: {
			"fpga-0000-af-00-0 of fpga-0000-af-00-0, Intel PAC Arria 10 GX, numa 0, by /dev/intel-fpga-fme.0",
			"  fpga-0000-af-00-0-port-0: loaded, region-f64e598bea11517fa28e7bc65d885104, /dev/intel-fpga-port.0, af-f64.d84.9k5Zi-oRUX-ijnvGXYhRBNhCTcSko8QT-J5DNoP5BAs, programmable",
		},
	} {
		d := on(tree, family)
		var got []string
		for _, c := range reading(t, d).Cards {
			got = append(got, drawn(c)...)
		}
		if diff := cmp.Diff(want, got); diff != "" || d.Name() != string(family) {
			t.Errorf("%s: cards differ (-want +got):\n%s", d.Name(), diff)
		}
	}
}

// Verifies the attributes of a card, and the directories of regions.
func TestAttributes(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewN3000())
	fpgatest.OK(t, tree.SetFile("sys/class/fpga_region/region0/bmc_version", "of no controller\n"))
	c, r := port(t, on(tree, DFL), "fpga-0000-05-00-0-port-0")
	got := map[string]string{}
	for name, a := range c.Attributes {
		got[name] = a.GetStringValue() + fmt.Sprint(a.GetIntValue())
	}
	want := map[string]string{
		"deviceID": "0b300", "bitstreamID": "0x2020002000002370", "bitstreamMetadata": "0x19101740", "socket": "0", "ports": "1",
		"managerState": "unknown0", "bmcVersion": "0x440200060", "bmcFirmwareVersion": "0x440200140", "niosFirmwareVersion": "3.0.10",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if id, err := os.ReadFile(filepath.Join(tree.Sysfs(), r.Dir, "afu_id")); err != nil || strings.TrimSpace(string(id)) != r.Function {
		t.Errorf("in the directory %s there is %q: %v", r.Dir, id, err)
	}
	if r.Kind != driver.Port || r.Interface != "a5d72a3cc8b04939912cf715e5dc10ca" || len(r.Env) > 0 {
		t.Errorf("%+v", r)
	}
}

// Verifies that a missing driver, a missing card, and an unreadable class differ.
func TestNothing(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewD5005())
	fpgatest.OK(t, os.Remove(filepath.Join(tree.Sysfs(), "class/fpga")))
	if r := on(tree, OPAE).Read(); !r.Absent || len(r.Problems) > 0 {
		t.Errorf("without a driver: %+v", r)
	}
	fpgatest.OK(t, tree.ReloadDriver())
	if r := on(tree, DFL).Read(); r.Absent || r.Unstable || len(r.Cards) > 0 {
		t.Errorf("without a card: %+v", r)
	}
	class := filepath.Join(tree.Sysfs(), "class/fpga_region")
	fpgatest.OK(t, errors.Join(os.Remove(class), os.WriteFile(class, nil, 0o600)))
	if r := on(tree, DFL).Read(); r.Absent || !r.Unstable || len(r.Problems) != 1 {
		t.Errorf("a class that is none: %+v", r)
	}
}

var _ driver.Driver = (*Driver)(nil)
