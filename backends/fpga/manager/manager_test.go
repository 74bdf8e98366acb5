package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

func at(tree *fpgatree.Tree, s Settings) *Driver {
	return New(sdk.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs()}, s)
}

func find(t testing.TB, tree *fpgatree.Tree) driver.Reading {
	t.Helper()
	got := at(tree, Defaults()).Read()
	if got.Unloaded || got.Unstable {
		t.Fatalf("%+v", got)
	}
	return got
}

// sketch returns what of a reading does not depend on numbers.
func sketch(got driver.Reading) []string {
	var all []string
	for _, c := range got.Cards {
		all = append(all, fmt.Sprintf("%s|%s|%s", c.ID, c.Board, c.Model))
		for _, r := range c.Regions {
			all = append(all, fmt.Sprintf("  %s|%s|%s|%s|%d nodes|%t", r.ID, r.Name, r.State, r.Interface, len(r.Nodes), r.Programmable))
		}
	}
	return all
}

// FPGAs of all machines are found, with names and IDs by their place.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		machine fpgatree.Machine
		want    []string
	}{
		"Zynq": {fpgatree.NewZynq(), []string{
			"fpga-devcfg-f8007000-84e5ca5d|fpga-devcfg-f8007000-84e5ca5d|Xilinx Zynq FPGA Manager",
			"  fpga-devcfg-f8007000-84e5ca5d-region|region-xilinx-zynq-fpga-manager|unreported||0 nodes|false",
		}},
		"SoC": {fpgatree.NewArria10SoC(), []string{
			"fpga-fpga-mgr-ffd03000-7a42a8b0|fpga-fpga-mgr-ffd03000-7a42a8b0|SoCFPGA Arria10 FPGA Manager",
			"  fpga-fpga-mgr-ffd03000-7a42a8b0-region-92e2777e|region-socfpga-arria10-fpga-manager-pr0|unreported||1 nodes|false",
			"  fpga-fpga-mgr-ffd03000-7a42a8b0-region-e38be388|region-socfpga-arria10-fpga-manager-pr1|unreported||1 nodes|false",
		}},
		"PCI": {fpgatree.NewPlainPCI(), []string{
			"fpga-0000-5e-00-0|fpga-0000-5e-00-0|Example CvP FPGA Manager",
			"  fpga-0000-5e-00-0-region|region-d8424dc4a4a3c413f89e433683f9040b|unreported|d8424dc4a4a3c413f89e433683f9040b|1 nodes|true",
		}},
	} {
		got := find(t, fpgatest.Tree(t, c.machine))
		if len(got.Problems) > 0 || !slices.Equal(sketch(got), c.want) {
			t.Errorf("%s: found\n%s\nproblems %q", name, strings.Join(sketch(got), "\n"), fpgatest.Problems(got.Problems))
		}
	}
}

// All properties of one card.
func TestCard(t *testing.T) {
	got := find(t, fpgatest.Tree(t, fpgatree.NewZynqMP()))
	want := driver.Card{
		ID: "fpga-pcap-698c2f54", Board: "fpga-pcap-698c2f54", Model: "Xilinx ZynqMP FPGA Manager", Management: []string{"/dev/fpga0"},
		Attributes: map[string]*sdk.Attribute{
			"managerState": sdk.String("operating"), "programmed": sdk.Bool(true), "deviceTreeNode": sdk.String("/firmware/zynqmp-firmware/pcap"),
		},
		Regions: []driver.Region{{
			ID: "fpga-pcap-698c2f54-region", State: driver.Unreported, Kind: driver.Plain, Name: "region-xilinx-zynqmp-fpga-manager",
			Nodes: []string{"/dev/uio0", "/dev/uio1"}, Env: map[string]string{"FPGA_MANAGER": "fpga0", "FPGA_REGION": "region0"},
			Programmable: true, Dir: "devices/platform/fpga-full/fpga_region/region0",
		}},
		Dir: "devices/platform/firmware:zynqmp-firmware/firmware:zynqmp-firmware:pcap/fpga_manager/fpga0",
	}
	if diff := cmp.Diff([]driver.Card{want}, got.Cards, protocmp.Transform(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Without the subsystem there is nothing, and that is no problem.
func TestUnloaded(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.Machine{})
	if got := at(tree, Defaults()).Read(); !got.Unloaded || len(got.Cards)+len(got.Problems) > 0 {
		t.Errorf("%+v", got)
	}
	fpgatest.OK(t, os.MkdirAll(filepath.Join(tree.Sysfs(), "class/fpga_manager"), 0o755))
	if got := at(tree, Defaults()).Read(); got.Unloaded || len(got.Cards)+len(got.Problems) > 0 {
		t.Errorf("%+v", got)
	}
}

// AMD's cards under XRT are another package's, by their driver or by their place.
func TestXRT(t *testing.T) {
	for _, name := range []string{"xocl", "xclmgmt"} {
		m := fpgatree.NewPlainPCI()
		m.Plain[0].Driver, m.Plain[0].Vendor = name, 0x10ee
		if got := find(t, fpgatest.Tree(t, m)); len(got.Cards)+len(got.Problems) > 0 {
			t.Errorf("%s: found %q", name, sketch(got))
		}
	}
	m := fpgatree.NewPlainPCI()
	m.Plain[0].Driver, m.Plain[0].Device, m.Plain[0].Regions = "", "fmgr.u.8192", nil
	if got := find(t, fpgatest.Tree(t, m)); len(got.Cards)+len(got.Problems) > 0 {
		t.Errorf("found %q", sketch(got))
	}
}

// A region has the nodes of its own devices: not those of a region below its device, none of a
// disk, and none of a manager, which are for programming.
func TestNodes(t *testing.T) {
	m := fpgatree.NewZynqMP()
	outer := &m.Plain[0].Regions[0]
	m.Plain[0].Regions = append(m.Plain[0].Regions, fpgatree.PlainRegion{Device: outer.Device + "/part", Node: "fpga-full/part", UIO: []string{"b0000000.uio"}})
	tree := fpgatest.Tree(t, m)
	w := sysroot.Writer{Root: tree.Root}
	device := "sys/devices/platform/fpga-full/c0000000.disk/block/disk0"
	w.File(device+"/dev", "259:0\n")
	w.Relative(device+"/subsystem", "sys/class/block")
	manager := "sys/devices/platform/firmware:zynqmp-firmware/firmware:zynqmp-firmware:pcap/"
	w.File(manager+"fpga_manager/fpga0/control/dev", "240:0\n")
	w.File(manager+"xdevcfg/xdevcfg/dev", "240:1\n")
	w.File("sys/devices/platform/fpga-full/fpga_manager/fpga9/control/dev", "240:2\n")
	w.File("sys/devices/platform/fpga-full/c1000000.dma/dma/dma!a/dev", "240:3\n")
	w.File("sys/devices/platform/fpga-full/c1000000.dma/dma/dma!a/uevent", "MAJOR=240\nDEVNAME=dma/a\n")
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	got := find(t, tree)
	c := got.Cards[0]
	if want := []string{"/dev/control", "/dev/fpga0", "/dev/xdevcfg"}; !slices.Equal(c.Management, want) || len(got.Problems) > 0 {
		t.Errorf("management %q, problems %q", c.Management, fpgatest.Problems(got.Problems))
	}
	want := map[string][]string{"fpga-full": {"/dev/dma/a", "/dev/uio0", "/dev/uio1"}, "part": {"/dev/uio2"}}
	for _, r := range c.Regions {
		if label := r.Attributes["region"].GetStringValue(); !slices.Equal(r.Nodes, want[label]) {
			t.Errorf("%s has %q, want %q", label, r.Nodes, want[label])
		}
	}
}

// What an overlay of the device tree has loaded is listed by its file's name, while it
// operates.
func TestOverlay(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewArria10SoC())
	fpgatest.OK(t, tree.SetFile("sys/firmware/devicetree/base/soc/base_fpga_region/pr1/firmware-name", "crypto.rbf\x00"))
	for state, want := range map[string]string{"operating": "crypto.rbf", "write error": ""} {
		fpgatest.OK(t, tree.SetManager(0, "state", state+"\n"))
		regions := find(t, tree).Cards[0].Regions
		if got := regions[1].Attributes["firmwareName"].GetStringValue(); got != want || regions[0].Attributes["firmwareName"] != nil || regions[1].Attributes["region"].GetStringValue() != "pr1" {
			t.Errorf("%s: %q, want %q; %+v", state, got, want, regions)
		}
	}
}

// Verifies that the FPGA of a Zynq is read of the tree that Linux itself makes: its manager, with
// the region that the device tree gives to it. The manager's file status is there, and empty.
func TestKernelsTree(t *testing.T) {
	got := find(t, fpgatest.Captured(t, sysroot.Captured(t, "fpga/zynq_linux_6.1.192.tar.gz")))
	want := []string{
		"fpga-devcfg-f8007000-6c35f4fd|fpga-devcfg-f8007000-6c35f4fd|Xilinx Zynq FPGA Manager",
		"  fpga-devcfg-f8007000-6c35f4fd-region|region-xilinx-zynq-fpga-manager|unreported||0 nodes|false",
	}
	if len(got.Problems) > 0 || !slices.Equal(sketch(got), want) || got.Cards[0].Regions[0].Env["FPGA_REGION"] != "region0" {
		t.Errorf("found\n%s\nproblems %q", strings.Join(sketch(got), "\n"), fpgatest.Problems(got.Problems))
	}
}
