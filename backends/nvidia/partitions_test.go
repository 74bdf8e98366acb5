package nvidia

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// dynamicRig is a backend on a node with one H100 in MIG mode, whose MIG devices are made for claims.
func dynamicRig(t *testing.T, lib *drivertest.Library, file string) *rig {
	t.Helper()
	r := newRig(t, lib, 1)
	for n := range 3 {
		r.capability(0, n+1)
	}
	r.configure(`{"mig": {"strategy": "dynamic", "stateFile": "` + file + `"}, "edits": {"mode": "runtime"}, "rescan": "1s"}`)
	r.watch()
	return r
}

// make calls Prepare for devices of a holder.
func (r *rig) make(holder string, ids ...string) (*backendv1.PrepareResponse, error) {
	return r.Prepare(r.t.Context(), &backendv1.PrepareRequest{Holder: &backendv1.Holder{Id: holder}, Devices: sdktest.Held(nil, ids...)})
}

// release calls Release for a device of a holder, and returns why it was not released.
func (r *rig) release(holder, id string) string {
	r.t.Helper()
	res, err := r.Release(r.t.Context(), &backendv1.ReleaseRequest{Holder: &backendv1.Holder{Id: holder}, Devices: sdktest.Held(nil, id)})
	if err != nil || len(res.GetResults()) != 1 {
		r.t.Fatalf("Release = %v, %v", res, err)
	}
	return res.GetResults()[0].GetMessage()
}

// wantMade waits until these devices exist, each with the holder for which it was made.
func (r *rig) wantMade(want ...string) *backendv1.Inventory {
	r.t.Helper()
	return r.Until("existing are "+strings.Join(want, ", "), func(inv *backendv1.Inventory) bool {
		var got []string
		for _, d := range inv.GetDevices() {
			if !d.GetPotential() {
				got = append(got, strings.TrimPrefix(d.GetId(), d.GetParentId()+"-")+" "+d.GetMadeFor())
			}
		}
		return cmp.Equal(want, got)
	})
}

// published is what the scheduler sees of the devices, by their IDs.
func published(inv *backendv1.Inventory) map[string]string {
	all := map[string]string{}
	for _, d := range inv.GetDevices() {
		all[d.GetId()] = (&backendv1.Device{Attributes: d.GetAttributes(), Capacities: d.GetCapacities(), Consumes: d.GetConsumes()}).String()
	}
	return all
}

// Verifies which MIG devices of a GPU are listed: each profile in each placement, with its slices as counters, and with
// the GPU's node for admin access.
func TestPotentialMIGDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 1)
		lib.GPUs[0].SetMIG(true)
		r := dynamicRig(t, lib, t.TempDir()+"/made")
		inv := r.Until("the first inventory", func(*backendv1.Inventory) bool { return true })
		gpu := lib.GPUs[0].UUID
		all := map[string]*backendv1.Device{}
		placements := map[string]int{}
		for _, d := range inv.GetDevices() {
			all[d.GetId()] = d
			placements[d.GetAttributes()["profile"].GetStringValue()]++
			node := slices.ContainsFunc(d.GetEdits().GetDeviceNodes(), func(n *backendv1.DeviceNode) bool { return n.GetPath() == "/dev/nvidia0" })
			if !d.GetPotential() || !node || len(d.GetHooks()) != 2 || d.GetParentId() != gpu || d.GetClass() != classMIG {
				t.Errorf("%v is no potential MIG device", d)
			}
		}
		want := map[string]int{"1g.10gb": 7, "1g.10gb+me": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
		if diff := cmp.Diff(want, placements); diff != "" {
			t.Errorf("placements by profile (-want +got):\n%s", diff)
		}
		d := all[gpu+"-1g.10gb.me-3"]
		consumes := map[string]int64{"memory-slice-3": 1, "compute-slices": 1, "decoders": 1, "jpeg-engines": 1, "ofa-engines": 1}
		if diff := cmp.Diff(consumes, d.GetConsumes()[0].GetCounters()); diff != "" || d.GetConsumes()[0].GetCounterSet() != strings.ToLower(gpu) {
			t.Errorf("it consumes (-want +got):\n%s", diff)
		}
		if attributes := d.GetAttributes(); attributes["profile"].GetStringValue() != "1g.10gb+me" || attributes["parentUUID"].GetStringValue() != gpu ||
			attributes["uuid"] != nil || d.GetCapacities()["memory"] != 10<<30 {
			t.Errorf("it has %v, %v", attributes, d.GetCapacities())
		}
		counters := map[string]int64{"compute-slices": 7, "decoders": 7, "jpeg-engines": 1, "ofa-engines": 1}
		for i := range uint32(8) {
			counters[memorySlice(i)] = 1
		}
		if diff := cmp.Diff(counters, inv.GetCounterSets()[0].GetCounters()); diff != "" {
			t.Errorf("the counter set (-want +got):\n%s", diff)
		}
	})
}

// Verifies that MIG devices are created and destroyed for their holder, that a failure leaves nothing, that the
// next process finds what an earlier one made or half made, and that what was made by hand stays.
func TestMIGDevicesAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 1)
		g, file := lib.GPUs[0], t.TempDir()+"/made"
		g.SetMIG(true)
		id := func(place string) string { return g.UUID + "-" + place }
		r := dynamicRig(t, lib, file)
		before := published(r.wantMade())
		res, err := r.make("x", id("3g.40gb-4"))
		if edits := res.GetEdits()[id("3g.40gb-4")]; err != nil || len(edits.GetDeviceNodes()) == 0 {
			t.Fatalf("Prepare = %v, %v", res, err)
		}
		if diff := cmp.Diff(before, published(r.wantMade("3g.40gb-4 x"))); diff != "" {
			t.Errorf("what is published changes when a MIG device is made (-before +after):\n%s", diff)
		}
		if again, err := r.make("x", id("3g.40gb-4")); err != nil || !cmp.Equal(res.String(), again.String()) || g.GPUInstances() != 1 {
			t.Errorf("Prepare again = %v, %v, with %d GPU instances", again, err, g.GPUInstances())
		}
		if _, err := r.make("y", id("1g.10gb-0"), id("1g.10gb-4")); err == nil || !strings.Contains(err.Error(), "create the MIG device 1g.10gb at slice 4 of GPU") ||
			!strings.Contains(err.Error(), "insufficient resources") || g.GPUInstances() != 1 {
			t.Errorf("Prepare of what does not fit = %v, with %d GPU instances", err, g.GPUInstances())
		}
		lib.Fail(0, "nvmlGpuInstanceCreateComputeInstance", nvml.ERROR_UNKNOWN)
		if _, err := r.make("y", id("1g.10gb-0")); err == nil || g.GPUInstances() != 1 {
			t.Errorf("Prepare without a compute instance = %v, with %d GPU instances", err, g.GPUInstances())
		}
		lib.Fail(0, "nvmlGpuInstanceDestroy", nvml.ERROR_IN_USE) // as if the process ended in between
		if _, err := r.make("y", id("1g.10gb-0")); err == nil || g.GPUInstances() != 2 {
			t.Errorf("Prepare = %v, with %d GPU instances", err, g.GPUInstances())
		}
		lib.Fail(0, "nvmlGpuInstanceCreateComputeInstance", nvml.SUCCESS)
		lib.Fail(0, "nvmlGpuInstanceDestroy", nvml.SUCCESS)

		lib.Fail(0, "nvmlDeviceGetUUID", nvml.ERROR_UNKNOWN)
		r = dynamicRig(t, lib, file)
		if why := r.release("x", id("3g.40gb-4")); !strings.Contains(why, "unknown until all GPUs can be read") {
			t.Errorf("the release before the GPU was read: %q", why)
		}
		lib.Fail(0, "nvmlDeviceGetUUID", nvml.SUCCESS)
		r.wantMade("1g.10gb-0 y", "3g.40gb-4 x")
		if why := r.release("y", id("3g.40gb-4")); why != "" || g.GPUInstances() != 2 {
			t.Errorf("the release of another holder's: %q, with %d GPU instances", why, g.GPUInstances())
		}
		lib.Fail(0, "nvmlComputeInstanceDestroy", nvml.ERROR_IN_USE)
		if why := r.release("x", id("3g.40gb-4")); !strings.Contains(why, "in use by another client") {
			t.Errorf("the release of what a process uses: %q", why)
		}
		lib.Fail(0, "nvmlComputeInstanceDestroy", nvml.SUCCESS)
		for device, holder := range map[string]string{"3g.40gb-4": "x", "1g.10gb-0": "y"} {
			if why := r.release(holder, id(device)); why != "" {
				t.Errorf("%s is not released: %s", device, why)
			}
		}
		r.Until("no MIG device exists", func(inv *backendv1.Inventory) bool {
			return !slices.ContainsFunc(inv.GetDevices(), func(d *backendv1.Device) bool {
				if !d.GetPotential() && d.GetMadeFor() == "" {
					t.Errorf("%s is listed as made by hand while it is destroyed", d.GetId())
				}
				return !d.GetPotential()
			})
		})

		g.Create(t, nvml.GPU_INSTANCE_PROFILE_2_SLICE, 0)
		r.wantMade("2g.20gb-0 ")
		if res, err := r.make("z", id("2g.20gb-0")); err != nil || res.GetEdits()[id("2g.20gb-0")] == nil {
			t.Errorf("Prepare of what was made by hand = %v, %v", res, err)
		}
		if why := r.release("z", id("2g.20gb-0")); why != "" || g.GPUInstances() != 1 {
			t.Errorf("after the release of what was made by hand (%q) there are %d GPU instances", why, g.GPUInstances())
		}
	})
}

// Verifies that a MIG device whose creation outlasts its call is destroyed, as no holder got it.
func TestMIGDeviceIsMadeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 1)
		g := lib.GPUs[0]
		g.SetMIG(true)
		r := dynamicRig(t, lib, t.TempDir()+"/made")
		r.wantMade()
		proceed := lib.Hang(0, "nvmlDeviceCreateGpuInstanceWithPlacement")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := r.backend.Prepare(ctx, sdk.Preparation{Holder: sdk.Holder{ID: "x"}, Devices: []sdk.HeldDevice{{ID: g.UUID + "-1g.10gb-0"}}, Parameters: json.RawMessage("{}")})
			failed <- err
		}()
		r.await("the driver creates it", func() bool { return lib.Calls("nvmlDeviceCreateGpuInstanceWithPlacement") > 0 })
		cancel()
		proceed()
		if err := <-failed; err == nil {
			t.Error("Prepare had time")
		}
		if res, err := r.make("y", g.UUID+"-1g.10gb-0"); err != nil {
			t.Errorf("Prepare = %v, %v", res, err)
		}
		r.wantMade("1g.10gb-0 y")
	})
}

// Verifies that a MIG mode which is pending is a problem, with what to do, until the mode is in force or the change is
// cancelled.
func TestPendingMIGMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 1)
		var mode, pending atomic.Int32
		lib.GPUs[0].GetMigModeFunc = func() (int, int, nvml.Return) { return int(mode.Load()), int(pending.Load()), nvml.SUCCESS }
		pending.Store(nvml.DEVICE_MIG_ENABLE)
		r := start(t, lib, 1, "")
		problem := func(text string) func(*backendv1.Inventory) bool {
			return func(inv *backendv1.Inventory) bool {
				return strings.Contains(strings.Join(inv.GetProblems(), "\n"), text)
			}
		}
		uuid := lib.GPUs[0].UUID
		r.Until("the mode that is pending is a problem", problem(uuid+": MIG mode is off, and will be on after the next reset of the GPU: "+
			"end its containers and reset it (nvidia-smi --gpu-reset -i "+uuid+"), or cancel the change (nvidia-smi -i "+uuid+" -mig 0)"))
		mode.Store(nvml.DEVICE_MIG_ENABLE)
		r.Until("the mode is in force", func(inv *backendv1.Inventory) bool { return !problem("MIG mode is")(inv) })
		pending.Store(nvml.DEVICE_MIG_DISABLE)
		r.Until("MIG mode is to be switched off", problem(uuid+": MIG mode is on, and will be off after the next reset"))
	})
}
