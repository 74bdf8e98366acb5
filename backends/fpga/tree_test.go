package fpga

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// onTree returns the backend with its real drivers on a tree, in the time of the machine.
func onTree(t *testing.T, tree *fpgatree.Tree, settings string) *rig {
	t.Helper()
	r := &rig{t: t, root: tree.Root}
	r.start(opened{}.drivers)
	r.watch(settings)
	return r
}

// sane checks what holds for all listings.
func sane(t testing.TB, inv *backendv1.Inventory) {
	t.Helper()
	seen := map[string]bool{}
	for _, d := range inv.GetDevices() {
		if id := d.GetId(); seen[id] || len(id) > 63 || d.GetParentId() == id {
			t.Errorf("ID %q, of %q", id, d.GetParentId())
		}
		seen[d.GetId()] = true
		if d.GetHealth() == nil || len(d.GetAttributes()) > maxAttributes || text(d, "model") == "" {
			t.Errorf("%s: %v", d.GetId(), d)
		}
		if e := d.GetEdits(); d.GetHealth().GetCode() != "node-missing" && len(e.GetDeviceNodes())+len(e.GetEnv()) == 0 {
			t.Errorf("%s: a container gets %v: %v", d.GetId(), e, d.GetHealth())
		}
		for name, a := range d.GetAttributes() {
			if len(name) > 32 || len(a.GetStringValue()) > maxText {
				t.Errorf("%s: attribute %s: %v", d.GetId(), name, a)
			}
		}
		for _, name := range []string{"functionName", "regionName", "platformName"} {
			if value := text(d, name); d.GetAttributes()[name] != nil && !validName(value) {
				t.Errorf("%s: %s is %q", d.GetId(), name, value)
			}
		}
	}
}

// Every machine of the generator, and every captured card, is listed in every mode, each region
// once.
func TestMachines(t *testing.T) {
	trees := map[string]func(*testing.T) *fpgatree.Tree{}
	devices := map[string]string{ // by class in mode af
		"mock_sys_dfl_d5005_nlb0": "af 1", "mock_sys_dfl_n3000_nlb0": "af 1", "mock_sys_dfl_n6000_sku0_nlb0": "region 1", "mock_sys_tmp-dcp-rc-nlb3": "af 1",
	}
	for name := range devices {
		archive := sysroot.Captured(t, "fpga/"+name+".tar.gz")
		trees[name] = func(t *testing.T) *fpgatree.Tree { return fpgatest.Captured(t, archive) }
	}
	for name, c := range map[string]struct {
		machine fpgatree.Machine
		devices string
	}{
		"VF": {fpgatree.NewVF(), "af 1"}, "U30": {fpgatree.NewU30(), "card 2"}, "vendors": {fpgatree.NewVendors(), "af 7 region 1 card 2"},
		"Alveos": {fpgatree.NewAlveos(), "card 5"}, "plain": {fpgatree.NewPlainMixed(), "af 7 region 6"},
	} {
		trees[name] = func(t *testing.T) *fpgatree.Tree { return fpgatest.Tree(t, c.machine) }
		devices[name] = c.devices
	}
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			r := onTree(t, tree(t), `{}`)
			inv := r.inventory("devices", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) > 0 })
			sane(t, inv)
			classes := map[string]int{}
			for _, d := range inv.GetDevices() {
				classes[d.GetClass()]++
				if d.GetHealth().GetCode() == "node-missing" {
					t.Errorf("%v", d)
				}
			}
			got := ""
			for _, class := range []string{classAF, classRegion, classCard} {
				if classes[class] > 0 {
					got += fmt.Sprintf(" %s %d", class, classes[class])
				}
			}
			if captured := strings.HasPrefix(name, "mock_"); got != " "+devices[name] || captured && !healthy(1)(inv) {
				t.Errorf("classes%s, want %s; %v, problems %q", got, devices[name], sdktest.Summary(inv), inv.GetProblems())
			}
			for _, mode := range []string{"region", "region-devel"} {
				r.configure(`{"mode": "` + mode + `"}`)
				sane(t, r.inventory(mode, func(inv *backendv1.Inventory) bool { return inv.GetSettingsRevision() == r.revision }))
			}
		})
	}
}
