package fpga

import (
	"errors"
	"os"
	"path/filepath"
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
			"3 FPGA cards are on the PCI bus without a driver (Intel PAC Arria 10 GX at 0000:af:00.0, ",
		},
		"not loaded": {
			fpgatree.NewMixed(), func(tree *fpgatree.Tree) error {
				return errors.Join(tree.ReloadDriver(), os.Remove(filepath.Join(tree.Sysfs(), "class/fpga")), os.Remove(filepath.Join(tree.Sysfs(), "class/fpga_region")))
			}, 0, "6 FPGA cards are on the PCI bus without a driver (Intel FPGA PAC D5005 at 0000:05:00.0, ",
		},
		"Alveo": {
			fpgatree.NewAlveo(fpgatree.U250), func(tree *fpgatree.Tree) error { return tree.ReloadXRT() }, 0,
			"1 FPGA card is on the PCI bus without a driver (an AMD FPGA 10ee:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fpgatest.Tree(t, c.machine)
			fpgatest.OK(t, c.unload(tree))
			r := onTree(t, tree, `{"health": {"interval": "1s"}}`)
			says(t, r, c.healthy, c.want)
			if unread := r.Last.GetUnread(); len(unread) == 0 || unread[0].GetPciBusId() == "" {
				t.Errorf("unread are %v, want the cards without a driver", unread)
			}
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

// Cards that vanish from where their driver is read, though it is still bound to them, stay listed with a fault. A
// backend that starts then lists the others, and has a problem with each that is missing in the driver's class.
func TestVanished(t *testing.T) {
	const region = "bus/pci/devices/0000:05:00.0/fpga_region/region0"
	for name, damage := range map[string]func(sysfs string) error{
		"class of OPAE": func(sysfs string) error { return os.RemoveAll(filepath.Join(sysfs, "class/fpga")) },
		"class of DFL":  func(sysfs string) error { return os.RemoveAll(filepath.Join(sysfs, "class/fpga_region")) },
		"region is empty": func(sysfs string) error {
			entries, err := os.ReadDir(filepath.Join(sysfs, region))
			for _, e := range entries {
				err = errors.Join(err, os.RemoveAll(filepath.Join(sysfs, region, e.Name())))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fpgatest.Tree(t, fpgatree.NewMixed())
			r := onTree(t, tree, `{"health": {"interval": "1s"}}`)
			listed := func(n int) func(*backendv1.Inventory) bool {
				return func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == n }
			}
			r.inventory("all", listed(8))
			r.do(damage(tree.Sysfs()))
			lost := map[string]string{} // addresses
			r.inventory("faults", func(inv *backendv1.Inventory) bool {
				for _, d := range inv.GetDevices() {
					if d.GetHealth().GetCode() == "card-incomplete" {
						lost[d.GetId()] = d.GetPciBusId()
					}
				}
				return len(inv.GetDevices()) == 8 && len(lost) > 0
			})
			r = onTree(t, tree, `{"health": {"interval": "1s"}}`)
			inv := r.inventory("the others", listed(8-len(lost)))
			problems := strings.Join(inv.GetProblems(), "\n")
			for id, at := range lost {
				if strings.HasPrefix(name, "class") && !strings.Contains(problems, at) {
					t.Errorf("%s is not listed; problems %s", id, problems)
				}
			}
		})
	}
}
