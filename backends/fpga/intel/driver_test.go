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
	if r.Unstable || r.Unloaded || len(r.Problems) > 0 {
		t.Fatalf("unstable %t, unloaded %t, problems %v", r.Unstable, r.Unloaded, r.Problems)
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

// Verifies the attributes of a card, and the directories of regions; that a number which the kernel does not report is
// missing, and not 0.
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
	for _, file := range []string{"socket_id", "ports_num"} {
		fpgatest.OK(t, tree.Spoil("sys/class/fpga_region/region0/dfl-fme.0/"+file, os.RemoveAll))
	}
	c, _ = port(t, on(tree, DFL), "fpga-0000-05-00-0-port-0")
	if c.Attributes["socket"] != nil || c.Attributes["ports"] != nil {
		t.Errorf("socket %v and ports %v are not reported", c.Attributes["socket"], c.Attributes["ports"])
	}
}

// Verifies that a missing driver, a missing card, and an unreadable class differ.
func TestNothing(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewD5005())
	fpgatest.OK(t, os.Remove(filepath.Join(tree.Sysfs(), "class/fpga")))
	if r := on(tree, OPAE).Read(); !r.Unloaded || len(r.Problems) > 0 {
		t.Errorf("without a driver: %+v", r)
	}
	fpgatest.OK(t, tree.ReloadDriver())
	if r := on(tree, DFL).Read(); r.Unloaded || r.Unstable || len(r.Cards) > 0 {
		t.Errorf("without a card: %+v", r)
	}
	class := filepath.Join(tree.Sysfs(), "class/fpga_region")
	fpgatest.OK(t, errors.Join(os.Remove(class), os.WriteFile(class, nil, 0o600)))
	if r := on(tree, DFL).Read(); r.Unloaded || !r.Unstable || len(r.Problems) != 1 {
		t.Errorf("a class that is none: %+v", r)
	}
}

var _ driver.Driver = (*Driver)(nil)
