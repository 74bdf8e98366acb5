package amd

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
)

// Which integrated GPUs are listed follows the settings at once. One that cannot compute gets
// no /dev/kfd.
func TestIntegrated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI210()
		m.GPUs = append(m.GPUs[:1],
			amdtree.GPU{Model: amdtree.Raphael, Address: pci.Address{Bus: 0x70}, UniqueID: 0x70},
			amdtree.GPU{Model: amdtree.Raven, Address: pci.Address{Bus: 0x71}, UniqueID: 0x71})
		r := start(t, m, `{"integrated": "all"}`)
		inv := r.Until("all", healthy(3))
		raven := device(inv, "amdgpu-0000000000000071")
		var nodes []string
		for _, n := range raven.GetEdits().GetDeviceNodes() {
			nodes = append(nodes, n.GetPath())
		}
		if strings.Join(nodes, " ") != "/dev/dri/renderD130 /dev/dri/card3" || !raven.GetAttributes()["integrated"].GetBoolValue() || raven.GetAttributes()["compute"].GetBoolValue() ||
			raven.GetCapacities()["memory"] != 256<<20 || len(inv.GetProblems()) > 0 {
			t.Errorf("%v, problems %q", raven, inv.GetProblems())
		}
		for settings, want := range map[string]int{`{"integrated": "none"}`: 1, `{}`: 2} {
			r.configure(settings)
			inv := r.Until(settings, func(inv *backendv1.Inventory) bool {
				return healthy(want)(inv) && len(inv.GetProblems()) == want-1
			})
			if want == 2 && !strings.Contains(inv.GetProblems()[0], "set integrated to all") {
				t.Errorf("problems %q", inv.GetProblems())
			}
		}
	})
}

// A GPU that could compute is not taken for one that cannot when its KFD node is gone.
func TestIntegratedWithoutNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scan := func(model amdtree.Model, known []engine.Unit) engine.Scan {
			t.Helper()
			r := newRig(t, amdtree.Machine{GPUs: []amdtree.GPU{{Model: model, Address: pci.Address{Bus: 0x70}, UniqueID: 0x70}}})
			cfg, err := configure([]byte(`{"integrated": "all"}`), sdk.HostPaths{Sysfs: r.tree.Sysfs(), Devfs: r.tree.Devfs(), Procfs: r.proc})
			r.do(err)
			return newSource(r.backend, cfg).Scan(known)
		}
		without := amdtree.Raphael
		without.NoKFD = true
		before := scan(amdtree.Raphael, nil)
		if len(before.Units) != 1 || len(before.Units[0].Devices) != 1 {
			t.Fatalf("%+v", before)
		}
		after := scan(without, before.Units)
		if len(after.Units) != 0 || len(after.Problems) != 1 || !after.Problems[0].Lost {
			t.Errorf("%+v", after)
		}
		if first := scan(without, nil); len(first.Units) != 1 || len(first.Units[0].Devices) != 1 {
			t.Errorf("%+v", first)
		}
	})
}
