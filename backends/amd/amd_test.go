package amd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
)

// A partition has what selectors and names ask for.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI300X("CPX", "NPS4")
		m.DriverVersion = "6.10.05"
		r := start(t, m, quick)
		inv := r.Until("all devices", healthy(63))
		whole := gpu.ID(m.GPUs[2].UniqueID, m.GPUs[2].Address)
		d := device(inv, whole+"-cpx-3")
		if d == nil {
			t.Fatalf("no partition 3 of %s: %v", whole, sdktest.Summary(inv))
		}
		for name, want := range map[string]string{
			"computePartition": "cpx", "memoryPartition": "nps4", "availableComputePartitions": "spx,dpx,qpx,cpx",
			"availableMemoryPartitions": "nps1,nps2,nps4", "family": "CDNA3", "gfxVersion": "gfx942", "driverVersionFull": "6.10.05",
			"uniqueID": fmt.Sprintf("%016x", m.GPUs[2].UniqueID), "hive": fmt.Sprintf("%016x", m.GPUs[2].Hive), "deviceID": "0x74a1", "type": "amdgpu-partition", "partitionProfile": "cpx_nps4",
		} {
			if got := d.GetAttributes()[name].GetStringValue(); got != want {
				t.Errorf("attribute %s is %q, want %q", name, got, want)
			}
		}
		if got := d.GetAttributes()["driverVersion"].GetVersionValue(); got != "6.10.5" {
			t.Errorf("driverVersion %q", got)
		}
		if got := d.GetAttributes()["numaNode"]; got == nil || got.GetIntValue() != int64(d.GetNumaNodes()[0]) {
			t.Errorf("numaNode %v", got)
		}
		// DRA publishes 32, of which the core's own are at most 8.
		if n := len(d.GetAttributes()) + len(d.GetCapacities()); n > 24 {
			t.Errorf("it has %d attributes and capacities", n)
		}
		if c := d.GetCapacities(); c["memory"] != 24<<30 || c["computeUnits"] != 38 || c["simdUnits"] != 152 {
			t.Errorf("capacities %v", c)
		}
		if d.GetParentId() != whole || d.GetResetGroup() != "hive-"+fmt.Sprintf("%016x", m.GPUs[2].Hive) ||
			d.GetPciBusId() != m.GPUs[2].Address.String() || len(d.GetNumaNodes()) != 1 || len(d.GetHooks()) != 0 {
			t.Errorf("device %v", d)
		}
		links := map[string]*backendv1.Link{}
		for _, l := range d.GetLinks() {
			links[l.GetPeerId()] = l
		}
		sibling, other := links[whole+"-cpx-4"], links[fmt.Sprintf("amdgpu-%016x-cpx-0", m.GPUs[3].UniqueID)]
		if sibling.GetKind() != backendv1.LinkKind_LINK_KIND_SAME_DEVICE || sibling.GetDistance() != 13 ||
			other.GetKind() != backendv1.LinkKind_LINK_KIND_XGMI || other.GetDistance() != 41 {
			t.Errorf("links: sibling %v, hive %v", sibling, other)
		}
		if other := device(inv, fmt.Sprintf("amdgpu-%016x-cpx-0", m.GPUs[0].UniqueID)); other == nil {
			t.Error("no first partition of the first GPU")
		}
	})
}

// Several kinds and modes on one node are listed under both strategies.
func TestStrategies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMixed()
		r := start(t, m, quick)
		kinds := func(inv *backendv1.Inventory) (gpus, partitions int) {
			for _, d := range inv.GetDevices() {
				switch d.GetClass() {
				case classGPU:
					gpus++
				case classPartition:
					partitions++
				}
			}
			return gpus, partitions
		}
		inv := r.Until("all devices", func(inv *backendv1.Inventory) bool {
			gpus, partitions := kinds(inv)
			return gpus > 0 && partitions > 0 && healthy(gpus+partitions)(inv)
		})
		nowhere := device(inv, gpu.ID(m.GPUs[3].UniqueID, m.GPUs[3].Address)) // its numa_node is -1
		if nodes := nowhere.GetNumaNodes(); nowhere == nil || len(nodes) > 0 {
			t.Errorf("a GPU that no NUMA node has is on %v", nodes)
		}
		n := len(inv.GetDevices())
		r.configure(strings.Replace(quick, "mixed", "single", 1))
		r.Until("only GPUs", func(inv *backendv1.Inventory) bool {
			gpus, partitions := kinds(inv)
			return gpus == n && partitions == 0
		})
	})
}

// A counter that is raised is a fault of the card and of all its partitions, and of no
// other.
func TestCounterWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := amdtree.NewMI300X("QPX", "NPS1")
		r := start(t, m, quick)
		r.Until("all devices", healthy(32))
		r.do(r.tree.RaiseCounter(5, "gfx.ce", 100))
		r.do(r.tree.RaiseCounter(5, "umc.ue", 2))
		inv := r.Until("the fault", onlyBad(32, m.GPUs[5].Address.String(), "ecc-uncorrectable"))
		for _, d := range inv.GetDevices() {
			if h := d.GetHealth(); h.GetCode() != "" && (h.GetRecovery() != backendv1.Recovery_RECOVERY_RESET || !strings.Contains(h.GetMessage(), "umc: 2")) {
				t.Errorf("health %v", h)
			}
		}
		r.configure(strings.Replace(quick, `"interval": "1s"`, `"interval": "1s", "uncorrectable": 2`, 1))
		r.Until("no fault by other settings", healthy(32))
	})
}

// A node without AMD GPUs has no problems; one with GPUs and no driver has one.
func TestNoDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, amdtree.Machine{Cards: 1}, quick)
		inv := r.Until("an empty inventory", func(inv *backendv1.Inventory) bool { return len(inv.GetDevices()) == 0 })
		if len(inv.GetProblems()) > 0 {
			t.Errorf("problems %q", inv.GetProblems())
		}

		r = start(t, amdtree.NewMI210(), quick)
		inv = r.Until("all GPUs", healthy(8))
		if kind := inv.GetDevices()[0].GetAttributes()["type"].GetStringValue(); kind != "amdgpu" {
			t.Errorf("a whole GPU has the type %q", kind)
		}
		r.do(r.tree.ReloadDriver())
		r.Until("GPUs without a driver", func(inv *backendv1.Inventory) bool {
			return len(inv.GetDevices()) == 8 && inv.GetDevices()[7].GetHealth().GetCode() == "driver-unbound"
		})
		r.do(os.RemoveAll(filepath.Join(r.tree.Sysfs(), "bus/pci/drivers/amdgpu")))
		r.Until("no driver", func(inv *backendv1.Inventory) bool {
			return len(inv.GetDevices()) == 8 && inv.GetDevices()[7].GetHealth().GetCode() == "driver-away"
		})
		r2 := newRig(t, amdtree.Machine{})
		r2.tree = r.tree
		r2.watch(quick)
		r.During(func() {
			r2.Until("a problem", func(inv *backendv1.Inventory) bool {
				return len(inv.GetDevices()) == 0 && len(inv.GetProblems()) == 1 && strings.Contains(inv.GetProblems()[0], "8 AMD GPUs are on the PCI bus (0000:03:00.0, ") &&
					strings.Contains(inv.GetProblems()[0], "), but the driver amdgpu is not loaded") &&
					len(inv.GetUnread()) == 8 && inv.GetUnread()[0].GetPciBusId() == "0000:03:00.0"
			})
		})
	})
}
