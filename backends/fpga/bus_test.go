package fpga

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// says waits for the machine's only problem, and checks that no more devices than wanted are
// healthy.
func says(t *testing.T, r *rig, devices int, want string) {
	t.Helper()
	r.inventory("a problem with "+want, func(inv *backendv1.Inventory) bool {
		return len(inv.GetProblems()) == 1 && strings.Contains(inv.GetProblems()[0], want)
	})
	if !healthy(devices)(r.Last) {
		t.Errorf("%v, want %d healthy devices", sdktest.Summary(r.Last), devices)
	}
}

// Cards that are on the PCI bus without a driver are one problem, whether a driver is loaded or
// not. Functions that are no FPGA, and a virtual function without a driver, which is for a
// virtual machine, are no problem.
func TestNoDriver(t *testing.T) {
	for name, c := range map[string]struct {
		machine fpgatree.Machine
		unload  func(*fpgatree.Tree) error
		healthy int
		want    string
	}{
		"loaded": {
			fpgatree.NewMixed(), func(tree *fpgatree.Tree) error { return tree.ReloadDriver(0, 1, 2) }, 3,
			"3 FPGA cards are on the PCI bus without a driver (the first is Intel PAC Arria 10 GX at 0000:af:00.0)",
		},
		"not loaded": {
			fpgatree.NewMixed(), func(tree *fpgatree.Tree) error {
				return errors.Join(tree.ReloadDriver(), os.Remove(filepath.Join(tree.Sysfs(), "class/fpga")), os.Remove(filepath.Join(tree.Sysfs(), "class/fpga_region")))
			}, 0, "6 FPGA cards are on the PCI bus without a driver (the first is Intel FPGA PAC D5005 at 0000:05:00.0)",
		},
		"Alveo": {
			fpgatree.NewAlveo(fpgatree.U250), func(tree *fpgatree.Tree) error { return tree.ReloadXRT() }, 0,
			"1 FPGA card is on the PCI bus without a driver (it is an AMD FPGA 10ee:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fpgatest.Tree(t, c.machine)
			fpgatest.OK(t, c.unload(tree))
			r := onTree(t, tree, `{"health": {"interval": "1s"}}`)
			says(t, r, c.healthy, c.want)
			if c.healthy == 0 {
				return
			}
			r.do(tree.ReloadDriver(0, 1, 2, 3, 4, 5))
			r.inventory("all", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 8 && len(inv.GetProblems()) == 0 })
			r.configure(`{"drivers": ["xrt"]}`)
			r.inventory("none of the others", func(inv *backendv1.Inventory) bool {
				return len(inv.GetDevices())+len(inv.GetProblems()) == 0 && inv.GetSettingsRevision() == r.revision
			})
		})
	}
}

// A card that lost its driver is unhealthy, and not reported a second time.
func TestKnownCardWithoutDriver(t *testing.T) {
	card := cardOf("a", 1, port("a", 0, functionA))
	run(t, quick, func(r *rig, f *fake) {
		r.inventory("the card", healthy(1))
		r.bind(card, "")
		f.change(func() { f.reading.Cards = nil })
		inv := r.inventory("the fault", only("a-port0", "driver-unbound"))
		if slices.ContainsFunc(inv.GetProblems(), func(p string) bool { return strings.Contains(p, "without a driver") }) {
			t.Errorf("problems %q", inv.GetProblems())
		}
	}, card)
}

// A port that the management engine counts but that is missing is a problem, and so is a card of
// a driver without an entry in its class. What was known before stays, unhealthy.
func TestFilesMissing(t *testing.T) {
	entry := []string{"0000:05:00.0 is left out", "/sys/class/fpga"}
	for name, c := range map[string]struct {
		machine fpgatree.Machine
		files   string
		fault   string
		want    []string
	}{
		"port":        {fpgatree.NewD5005(), "sys/bus/pci/devices/*/fpga_region/region0/dfl-port.0", "region-incomplete", []string{"ports_num is 1", "0000:05:00.0"}},
		"class, dfl":  {fpgatree.NewD5005(), "sys/class/fpga*/*0", "card-incomplete", entry},
		"class, opae": {fpgatree.NewArria10(), "sys/class/fpga*/*0", "card-incomplete", entry},
	} {
		for _, known := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				tree := fpgatest.Tree(t, c.machine)
				remove := func() {
					files, err := filepath.Glob(filepath.Join(tree.Root, c.files))
					if err != nil || len(files) == 0 {
						t.Fatal(files, err)
					}
					for _, file := range files {
						fpgatest.OK(t, os.RemoveAll(file))
					}
				}
				fault := ""
				if !known {
					remove()
				}
				r := onTree(t, tree, `{"health": {"interval": "1s"}}`)
				if known {
					r.inventory("the card", healthy(1))
					remove()
					fault = c.fault
				}
				inv := r.inventory("the problem", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 1 })
				r.says("the problem", errors.New(inv.GetProblems()[0]), c.want...)
				if got := device(inv, "fpga-0000-05-00-0-port-0").GetHealth().GetCode(); got != fault {
					t.Errorf("the port's fault is %q, want %q", got, fault)
				}
			})
		}
	}
}

// A function that XRT's driver has, without the files that the driver creates, is a problem of
// its own, not one of a card without a driver.
func TestDriverOfAnAlveoFails(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	for side, name := range map[fpgatree.Side]string{fpgatree.User: "user_pf", fpgatree.Management: "mgmt_pf"} {
		dir, err := tree.Alveo(0, side)
		fpgatest.OK(t, err)
		fpgatest.OK(t, os.RemoveAll(filepath.Join(tree.Root, dir, name)))
	}
	r := onTree(t, tree, `{}`)
	inv := r.inventory("two problems", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 2 })
	for _, p := range inv.GetProblems() {
		if !strings.Contains(p, "neither user_pf nor mgmt_pf") || len(inv.GetDevices()) != 0 {
			t.Errorf("%s; devices %v", p, sdktest.Summary(inv))
		}
	}
}
