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
	"github.com/accelmux/accelmux/test/sysroot"
)

// faulty reports whether there are n devices, and one of them, and no other, has a fault.
func faulty(n int, id, code string) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		bad := 0
		for _, d := range inv.GetDevices() {
			if d.GetHealth().GetCode() != "" {
				bad++
			}
		}
		return len(inv.GetDevices()) == n && bad == 1 && device(inv, id).GetHealth().GetCode() == code
	}
}

// A partition that was listed and whose KFD node or DRM device no longer answers
// stays, unhealthy; the other partitions of its GPU stay as they are. It is healthy again
// when it answers.
func TestKnownPartitionStays(t *testing.T) {
	for name, damage := range map[string]sysroot.Damage{
		"empty": sysroot.Damages["empty"], "binary": sysroot.Damages["binary"], "missing": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				m := amdtree.NewMI300X("QPX", "NPS1")
				r := start(t, m, quick)
				r.Until("all devices", healthy(32))
				for _, part := range []int{0, 2} {
					file := filepath.Join(r.tree.Node(4, part), "properties")
					before, err := os.ReadFile(file)
					r.do(err)
					r.do(damage(file))
					id := fmt.Sprintf("%s-qpx-%d", gpu.ID(m.GPUs[4].UniqueID, m.GPUs[4].Address), part)
					inv := r.Until("the fault", faulty(32, id, "partition-incomplete"))
					d := device(inv, id)
					if h := d.GetHealth(); h.GetRecovery() != backendv1.Recovery_RECOVERY_SELF || !strings.Contains(h.GetMessage(), "KFD node") {
						t.Errorf("health %v", h)
					}
					if len(d.GetEdits().GetDeviceNodes()) != 0 || len(d.GetLinks()) != 0 {
						t.Errorf("edits %v, %d links", d.GetEdits(), len(d.GetLinks()))
					}
					// Other settings make the edits again, but not of a missing partition.
					r.configure(strings.Replace(quick, `"poll": "100ms"`, fmt.Sprintf(`"poll": "%dms"`, 101+part), 1))
					r.Until("the fault by other settings", func(inv *backendv1.Inventory) bool {
						return inv.GetSettingsRevision() == r.revision && faulty(32, id, "partition-incomplete")(inv)
					})
					r.do(os.WriteFile(file, before, 0o600))
					r.Until("all devices again", healthy(32))
				}
			})
		})
	}
}

// A GPU whose unique_id changes while KFD still has the IDs that it had is the GPU that it
// was: it stays, unhealthy, and no other is listed in its place. A backend that starts then
// leaves it out, as it cannot know which of the two IDs is right.
func TestUniqueIDFlips(t *testing.T) {
	for name, m := range map[string]amdtree.Machine{
		"one KFD node": amdtree.NewMI210(), "partitions": amdtree.NewMI300X("DPX", "NPS1"),
		"IDs of dies": func() amdtree.Machine { m := amdtree.NewMI300X("SPX", "NPS1"); m.XCDIdentity = true; return m }(),
	} {
		for change, text := range map[string]func(uint64) string{
			"one bit": func(id uint64) string { return fmt.Sprintf("%016x\n", id^1<<17) },
			"nothing": func(uint64) string { return "" },
		} {
			t.Run(name+" "+change, func(t *testing.T) {
				t.Parallel()

				synctest.Test(t, func(t *testing.T) {
					r := start(t, m, quick)
					n := 8
					if name == "partitions" {
						n = 16
					}
					before := r.Until("all devices", healthy(n))
					at := m.GPUs[3].Address.String()
					file := filepath.Join("sys/bus/pci/devices", at, "unique_id")
					r.do(r.tree.SetFile(file, text(m.GPUs[3].UniqueID)))
					inv := r.Until("the fault", onlyBad(n, at, "gpu-incomplete"))
					for i, d := range inv.GetDevices() {
						if was := before.GetDevices()[i].GetId(); d.GetId() != was {
							t.Errorf("%s is listed in place of %s: %v", d.GetId(), was, sdktest.Summary(inv))
						}
					}
					if !strings.Contains(strings.Join(inv.GetProblems(), "\n"), "unique_id") {
						t.Errorf("problems %q", inv.GetProblems())
					}
					if name != "IDs of dies" { // which KFD has then instead of the card's
						again := newRig(t, amdtree.Machine{}) // a restart
						again.tree = r.tree
						again.watch(quick)
						inv = again.Until("the others", healthy(n-n/8))
						if !strings.Contains(strings.Join(inv.GetProblems(), "\n"), at+" is left out: its unique_id is ") {
							t.Errorf("after a restart the problems are %q", inv.GetProblems())
						}
					}
					r.do(r.tree.SetFile(file, fmt.Sprintf("%016x\n", m.GPUs[3].UniqueID)))
					r.Until("all devices again", healthy(n))
				})
			})
		}
	}
}
