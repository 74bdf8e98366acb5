package fpga

import (
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

// Cards that are on the PCI bus without a driver are one problem, whether a driver is
// loaded or not, and none once they have one. Functions that are no FPGA, and a virtual
// function without a driver, which is for a virtual machine, are no problem.
func TestNoDriverOfACard(t *testing.T) {
	for name, absent := range map[string]bool{"loaded": false, "not loaded": true} {
		t.Run(name, func(t *testing.T) {
			tree := fpgatest.Tree(t, fpgatree.NewMixed())
			fpgatest.OK(t, tree.ReloadDriver(0, 1, 2))
			devices := 3
			if absent {
				devices = 0
				err := tree.ReloadDriver()
				for _, class := range []string{"fpga", "fpga_region"} {
					if err == nil {
						err = os.Remove(filepath.Join(tree.Sysfs(), "class", class))
					}
				}
				fpgatest.OK(t, err)
			}
			r := onTree(t, tree, `{"health": {"interval": "1s"}}`)
			if absent {
				says(t, r, devices, "6 FPGA cards are on the PCI bus without a driver (the first is Intel FPGA PAC D5005 at 0000:05:00.0)")
				return
			}
			says(t, r, devices, "3 FPGA cards are on the PCI bus without a driver (the first is Intel PAC Arria 10 GX at 0000:af:00.0)")
			r.do(tree.ReloadDriver(0, 1, 2, 3, 4, 5))
			r.inventory("all", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 8 && len(inv.GetProblems()) == 0 })
			r.configure(`{"drivers": ["xrt"]}`)
			r.inventory("none of the others", func(inv *backendv1.Inventory) bool {
				return len(inv.GetDevices())+len(inv.GetProblems()) == 0 && inv.GetSettingsRevision() == r.revision
			})
		})
	}
}

// The same for AMD's cards.
func TestNoDriverOfAnAlveo(t *testing.T) {
	tree := fpgatest.Tree(t, fpgatree.NewAlveo(fpgatree.U250))
	for _, side := range []fpgatree.Side{fpgatree.User, fpgatree.Management} {
		dir, err := tree.Alveo(0, side)
		fpgatest.OK(t, err)
		for _, name := range []string{"driver", "user_pf", "mgmt_pf"} {
			fpgatest.OK(t, os.RemoveAll(filepath.Join(tree.Root, dir, name)))
		}
	}
	says(t, onTree(t, tree, `{}`), 0, "1 FPGA card is on the PCI bus without a driver (it is an AMD FPGA 10ee:")
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

// withoutFiles runs the backend on a tree from which remove deletes files, before the start or,
// if the card is to be known, after the first inventory. It checks the fault of the port, which
// only a known one has, and returns the only problem.
func withoutFiles(t *testing.T, tree *fpgatree.Tree, known bool, remove func(), fault string) string {
	t.Helper()
	if !known {
		remove()
		fault = ""
	}
	r := onTree(t, tree, `{"health": {"interval": "1s"}}`)
	if known {
		r.inventory("the card", healthy(1))
		remove()
	}
	inv := r.inventory("the problem", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 1 })
	if got := device(inv, "fpga-0000-05-00-0-port-0").GetHealth().GetCode(); got != fault {
		t.Errorf("the port's fault is %q, want %q", got, fault)
	}
	return inv.GetProblems()[0]
}

// A port that the management engine counts but that is missing is a problem; a known port stays,
// unhealthy.
func TestPortMissing(t *testing.T) {
	for name, known := range map[string]bool{"from the beginning": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			tree := fpgatest.Tree(t, fpgatree.NewD5005())
			at := tree.Machine().Cards[0].Address
			port, err := tree.Find(at, "port0")
			fpgatest.OK(t, err)
			remove := func() {
				fpgatest.OK(t, os.RemoveAll(filepath.Join(tree.Root, port)))
			}
			if p := withoutFiles(t, tree, known, remove, "region-incomplete"); !strings.Contains(p, "ports_num is 1") || !strings.Contains(p, "0000:05:00.0") {
				t.Error(p)
			}
		})
	}
}

// A card of a driver without an entry in the class is a problem; a known card stays, unhealthy.
func TestClassEntryMissing(t *testing.T) {
	for name, m := range map[string]fpgatree.Machine{"dfl": fpgatree.NewD5005(), "opae": fpgatree.NewArria10()} {
		for _, known := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				tree := fpgatest.Tree(t, m)
				links, err := filepath.Glob(filepath.Join(tree.Sysfs(), "class/fpga*/*0"))
				if err != nil || len(links) == 0 {
					t.Fatal(links, err)
				}
				remove := func() {
					for _, link := range links {
						fpgatest.OK(t, os.Remove(link))
					}
				}
				if p := withoutFiles(t, tree, known, remove, "card-incomplete"); !strings.Contains(p, "0000:05:00.0 is left out") || !strings.Contains(p, "/sys/class/fpga") {
					t.Error(p)
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
