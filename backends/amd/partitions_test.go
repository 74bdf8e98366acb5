package amd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
)

// Verifies that partitions of one mode never have a counter in common, those of two modes always have, and that a GPU
// never has more counters than the API allows.
func TestCells(t *testing.T) {
	possible := []gpu.Mode{{Name: "SPX", Partitions: 1}, {Name: "DPX", Partitions: 2}, {Name: "TPX", Partitions: 3}, {Name: "QPX", Partitions: 4}}
	for dies := 2; dies <= 8; dies++ {
		for set := range 1 << len(possible) {
			var modes []gpu.Mode
			for i, m := range possible {
				if set&(1<<i) != 0 && m.Partitions <= dies {
					modes = append(modes, m)
				}
			}
			if modes = append(modes, gpu.Mode{Name: "CPX", Partitions: dies}); len(modes) == 1 {
				continue // it is not switched
			}
			all := map[string]bool{}
			for _, a := range modes {
				for i := range a.Partitions {
					for _, cell := range cells(modes, a, i) {
						all[cell] = true
					}
					for _, b := range modes {
						for k := range b.Partitions {
							other := cells(modes, b, k)
							exclude := slices.ContainsFunc(cells(modes, a, i), func(cell string) bool { return slices.Contains(other, cell) })
							if exclude != (a != b || i == k) {
								t.Errorf("modes %v: that %v %d and %v %d exclude each other is %v", modes, a, i, b, k, exclude)
							}
						}
					}
				}
			}
			if len(all) > 32 {
				t.Errorf("modes %v need %d counters", modes, len(all))
			}
		}
	}
}

// errIgnored has the driver accept the switch without doing it.
var errIgnored = errors.New("ignored")

// onDemandRig is a machine with two MI300X in SPX, whose modes are switched for claims.
type onDemandRig struct {
	*rig
	file string
	// fails, if set, is the driver's answer to the next switch.
	fails error
}

func newOnDemandRig(t *testing.T) *onDemandRig {
	t.Helper()
	m := amdtree.NewMI300X("SPX", "NPS1")
	m.GPUs = m.GPUs[:2]
	r := &onDemandRig{rig: newRig(t, m), file: filepath.Join(t.TempDir(), "made.json")}
	r.restart()
	return r
}

// restart has another process serve, of which the earlier one is not aware.
func (r *onDemandRig) restart() {
	r.t.Helper()
	s := r.backend.seams
	s.write = func(path, mode string) error {
		if err := r.fails; err != nil {
			r.fails = nil
			if errors.Is(err, errIgnored) {
				return nil
			}
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		i := slices.IndexFunc([]string{"0000:05:00.0", "0000:27:00.0"}, func(at string) bool { return strings.Contains(path, at) })
		return r.tree.SwitchPartition(i, mode, "")
	}
	r.backend, r.revision = newBackend(r.backend.log, s), 0
	r.watch(`{"partitions": {"strategy": "dynamic", "stateFile": "` + r.file + `"}, "poll": "100ms", "rescan": "1s", "health": {"interval": "1s"}}`)
}

// id returns the ID of a partition of a GPU, such as cpx-3; "" is the whole GPU.
func (r *onDemandRig) id(n int, part string) string {
	g := amdtree.NewMI300X("SPX", "NPS1").GPUs[n]
	if part == "" {
		return gpu.ID(g.UniqueID, g.Address)
	}
	return gpu.ID(g.UniqueID, g.Address) + "-" + part
}

// make calls Prepare for devices of a holder.
func (r *onDemandRig) make(holder string, ids ...string) (res *backendv1.PrepareResponse, err error) {
	r.t.Helper()
	r.During(func() {
		res, err = r.Prepare(r.t.Context(), &backendv1.PrepareRequest{Holder: &backendv1.Holder{Id: holder}, Devices: sdktest.Held(nil, ids...)})
	})
	return res, err
}

func (r *onDemandRig) release(holder string, ids ...string) {
	r.t.Helper()
	res := call(r.rig, func() (*backendv1.ReleaseResponse, error) {
		return r.Release(r.t.Context(), &backendv1.ReleaseRequest{Holder: &backendv1.Holder{Id: holder}, Devices: sdktest.Held(nil, ids...)})
	})
	for _, result := range res.GetResults() {
		if !result.GetReleased() {
			r.t.Errorf("%s was not released: %s", result.GetDeviceId(), result.GetMessage())
		}
	}
}

// wantExisting waits until these devices of the first GPU exist, each with its holder, and all are healthy.
func (r *onDemandRig) wantExisting(want ...string) {
	r.t.Helper()
	exist := func(inv *backendv1.Inventory) bool {
		var got []string
		for _, d := range inv.GetDevices() {
			if !d.GetPotential() {
				got = append(got, strings.TrimSpace(strings.TrimPrefix(d.GetId(), r.id(0, "")+"-")+" "+d.GetMadeFor()))
			}
		}
		return slices.Equal(want, got) && healthy(30)(inv)
	}
	if !exist(r.Last) { // it may have come during a call
		r.Until(fmt.Sprintf("existing are %q", want), exist)
	}
}

// siblings are the partitions of CPX, of which some have holders.
func siblings(holders ...string) (all []string) {
	for i := range 8 {
		all = append(all, fmt.Sprintf("cpx-%d", i))
		if i < len(holders) && holders[i] != "" {
			all[i] += " " + holders[i]
		}
	}
	return all
}

// Verifies what is listed of free GPUs: the partitions of all modes, with the attributes that they would have. Those of the mode that a GPU is in have
// its nodes, by which the core finds processes that use it.
func TestPotentialPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOnDemandRig(t)
		inv := r.Until("the first inventory", healthy(2*(1+2+4+8)))
		profiles := map[string]int{}
		for _, d := range inv.GetDevices() {
			profiles[d.GetClass()+" "+d.GetAttributes()["partitionProfile"].GetStringValue()]++
			if !d.GetPotential() || (d.GetEdits() != nil) != (d.GetClass() == "gpu") || len(d.GetHooks()) != 2 || len(d.GetConsumes()) != 1 || len(d.GetLinks()) != 0 {
				t.Errorf("%v is no potential partition", d)
			}
		}
		if diff := cmp.Diff(map[string]int{"gpu spx_nps1": 2, "partition dpx_nps1": 4, "partition qpx_nps1": 8, "partition cpx_nps1": 16}, profiles); diff != "" {
			t.Errorf("devices by class and profile (-want +got):\n%s", diff)
		}
		if sets := inv.GetCounterSets(); len(sets) != 2 || len(sets[0].GetCounters()) != 32 {
			t.Errorf("counter sets %v", sets)
		}
		if _, err := r.make("x", r.id(0, "cpx-3")); err != nil {
			t.Fatal(err)
		}
		r.wantExisting(siblings("", "", "", "x")...)
		for _, id := range []string{"cpx-3", "cpx-4"} { // as estimated before
			was, is := device(inv, r.id(0, id)), device(r.Last, r.id(0, id))
			if diff := cmp.Diff(was.GetCapacities(), is.GetCapacities()) + cmp.Diff(fmt.Sprint(was.GetAttributes()), fmt.Sprint(is.GetAttributes())); diff != "" || is.GetEdits() == nil {
				t.Errorf("%s exists, with the edits %v (-potential +existing):\n%s", id, is.GetEdits(), diff)
			}
		}
	})
}

// Verifies that a GPU is switched for its first holder, that its other partitions can be had meanwhile, that nothing is
// switched while a holder has one, and that a free GPU may be switched again, whoever set its mode.
func TestPartitionsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOnDemandRig(t)
		r.wantExisting()
		res, err := r.make("x", r.id(0, "cpx-0"), r.id(0, "cpx-1"))
		if err != nil || len(res.GetEdits()[r.id(0, "cpx-1")].GetDeviceNodes()) != 3 {
			t.Fatalf("Prepare = %v, %v", res, err)
		}
		r.wantExisting(siblings("x", "x")...)
		if again, err := r.make("x", r.id(0, "cpx-0"), r.id(0, "cpx-1")); err != nil || again.String() != res.String() {
			t.Errorf("Prepare again = %v, %v", again, err)
		}
		if _, err := r.make("y", r.id(0, "cpx-2")); err != nil {
			t.Errorf("Prepare of another partition = %v", err)
		}
		r.release("y", r.id(0, "cpx-0"))
		r.wantExisting(siblings("x", "x", "y")...)
		for _, d := range r.Last.GetDevices() {
			if is := d.GetSlowToPrepare(); strings.HasPrefix(d.GetId(), r.id(0, "")) && is != !strings.Contains(d.GetId(), "cpx") {
				t.Errorf("%s is slow to prepare: %v, the GPU is in CPX", d.GetId(), is)
			}
		}
		r.do(r.tree.SwitchPartition(0, "SPX", "")) // as by a reload of the driver
		r.wantExisting()
		if _, err := r.make("y", r.id(0, "cpx-2")); err != nil {
			t.Errorf("Prepare after the GPU was switched by hand = %v", err)
		}
		r.wantExisting(siblings("x", "x", "y")...)
		if _, err := r.make("z", r.id(0, "dpx-0")); err == nil || !strings.Contains(err.Error(), "cannot be switched from CPX to DPX: holder ") {
			t.Errorf("Prepare of another mode = %v", err)
		}
		r.release("x", r.id(0, "cpx-0"), r.id(0, "cpx-1"))
		r.wantExisting(siblings("", "", "y")...)
		r.release("y", r.id(0, "cpx-2"))
		r.wantExisting()
		if _, err := r.make("z", r.id(0, "")); err != nil {
			t.Errorf("Prepare of the whole GPU = %v", err)
		}
		r.wantExisting(r.id(0, "") + " z")
		r.release("z", r.id(0, ""))
		r.do(r.tree.SwitchPartition(0, "CPX", ""))
		if _, err := r.make("x", r.id(0, "cpx-7")); err != nil {
			t.Errorf("Prepare of what was switched by hand = %v", err)
		}
		r.wantExisting(siblings("", "", "", "", "", "", "", "x")...)
	})
}

// Verifies that a switch that the driver refuses, or does not make, leaves nothing, that its error has what to do, and
// that the partitions of a mode are unhealthy if the driver will refuse it again.
func TestPartitionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOnDemandRig(t)
		r.wantExisting()
		r.file77()
		for _, c := range []struct {
			err   error
			want  string
			lasts bool
		}{
			{unix.EIO, "switch the GPU " + r.id(0, "") + " from SPX to CPX: write ", false},
			{unix.EPERM, "operation not permitted: the GPU is in reset", false},
			{unix.EBUSY, "device or resource busy: a process uses the GPU, or may use it", false},
			{unix.EBUSY, "blocks all GPUs): rocm (77)", false},
			{unix.EINVAL, "the driver does not allow this compute mode in the GPU's memory mode", true},
			{unix.EROFS, "the agent needs root's rights and a /sys that it may write", true},
			{errIgnored, "the driver accepted the mode and did not switch to it: a virtual function cannot be switched", true},
		} {
			r.fails = c.err
			if _, err := r.make("x", r.id(0, "cpx-0")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Prepare = %v, want %q", err, c.want)
			}
			if text, err := os.ReadFile(r.file); err != nil || string(text) != "{}" {
				t.Errorf("the record is %s, %v", text, err)
			}
			if !c.lasts {
				r.wantExisting()
				continue
			}
			r.Until("the mode is refused", r.refused("cpx", c.want))
			r.do(r.tree.ReloadDriver())
			r.Until("none has its driver", func(inv *backendv1.Inventory) bool {
				return !slices.ContainsFunc(inv.GetDevices(), func(d *backendv1.Device) bool { return d.GetHealth().GetCode() != "driver-unbound" })
			})
			r.do(r.tree.ReloadDriver(0, 1))
			r.Until("all are healthy", healthy(30))
		}
		if _, err := r.make("x", r.id(0, "cpx-0"), r.id(0, "dpx-1")); err == nil || !strings.Contains(err.Error(), "at the same time") {
			t.Errorf("Prepare of two modes = %v", err)
		}
		r.wantExisting()
	})
}

// Verifies that a refused mode is that of one GPU in one memory mode, and is healthy when the GPU is in it.
func TestRefusedModeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOnDemandRig(t)
		r.wantExisting()
		for _, ends := range [][2]string{{"CPX", "NPS4"}, {"DPX", "NPS1"}} {
			r.fails = unix.EINVAL
			if _, err := r.make("x", r.id(0, "dpx-0")); err == nil {
				t.Error("Prepare did not fail")
			}
			r.Until("the mode is refused", r.refused("dpx", "does not allow"))
			r.do(r.tree.SwitchPartition(0, ends[0], ends[1]))
			r.Until("all are healthy", healthy(30))
		}
	})
}

// refused reports whether the partitions of a mode of the first GPU, and no others, have the fault that the driver
// refuses it.
func (r *onDemandRig) refused(mode, why string) func(*backendv1.Inventory) bool {
	return func(inv *backendv1.Inventory) bool {
		return len(inv.GetDevices()) == 30 && !slices.ContainsFunc(inv.GetDevices(), func(d *backendv1.Device) bool {
			h := d.GetHealth()
			is := h.GetCode() == "mode-refused" && strings.Contains(h.GetMessage(), why)
			return is != strings.HasPrefix(d.GetId(), r.id(0, mode)) || !is && h.GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY
		})
	}
}

// file77 has the process 77 open /dev/kfd.
func (r *onDemandRig) file77() {
	r.rig.file("rocm\n", r.proc, "77/comm")
	r.do(os.MkdirAll(filepath.Join(r.tree.Sysfs(), "class/kfd/kfd/proc/77"), 0o755))
}

// Verifies that the next process finds what an earlier one made or was about to make.
func TestPartitionsAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOnDemandRig(t)
		r.wantExisting()
		for _, switched := range []bool{false, true} {
			r.do(os.WriteFile(r.file, []byte(`{"`+r.id(0, "cpx-1")+`": "x", "`+r.id(1, "dpx-0")+`": "y"}`), 0o600))
			if switched {
				r.do(r.tree.SwitchPartition(0, "CPX", ""))
			}
			r.restart()
			if !switched {
				r.wantExisting()
				if text, err := os.ReadFile(r.file); err != nil || string(text) != "{}" {
					t.Errorf("the record is %s, %v", text, err)
				}
				continue
			}
			r.wantExisting(siblings("", "x")...)
			if _, err := r.make("x", r.id(0, "cpx-1")); err != nil {
				t.Error(err)
			}
			r.release("x", r.id(0, "cpx-1"))
			r.wantExisting()
		}
	})
}
