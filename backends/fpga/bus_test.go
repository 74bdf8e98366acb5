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
