package mock

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that a potential partition is made by Prepare, is listed as made for its holder also by the next
// process, and is gone after its holder's Release; and that one that was made by hand stays.
func TestPartitions(t *testing.T) {
	dir := t.TempDir()
	settings := `{"memory": "8Gi", "partitions": {"slices": 4, "profiles": {"1g": 1, "2g": 2}}, "scenarioFile": "FILE", "stateFile": "` + filepath.Join(dir, "made.json") + `"}`
	r := newRig(t, dir, settings)
	holder := func(id string) *backendv1.Holder { return &backendv1.Holder{Id: id} }
	prepare := func(of string, ids ...string) (*backendv1.PrepareResponse, error) {
		return r.Prepare(t.Context(), &backendv1.PrepareRequest{Holder: holder(of), Devices: sdktest.Held(nil, ids...)})
	}
	release := func(of, id string) {
		t.Helper()
		res, err := r.Release(t.Context(), &backendv1.ReleaseRequest{Holder: holder(of), Devices: sdktest.Held(nil, id)})
		if err != nil || !res.GetResults()[0].GetReleased() {
			t.Errorf("Release = %v, %v", res, err)
		}
	}
	want := func(what string, existing ...string) {
		t.Helper()
		var got []string
		r.Until(what, func(inv *backendv1.Inventory) bool {
			got = nil
			for _, d := range inv.GetDevices() {
				if !d.GetPotential() {
					got = append(got, d.GetId()+" "+d.GetMadeFor())
				}
			}
			return cmp.Equal(existing, got)
		})
	}
	inv := r.Until("the first inventory", anyInventory)
	d := device(inv, "mock-0-2g-2")
	if len(inv.GetDevices()) != 6 || !d.GetPotential() || d.GetEdits() != nil || len(d.GetHooks()) != 2 || d.GetCapacities()["memory"] != 4<<30 ||
		d.GetParentId() != "mock-0" || d.GetConsumes()[0].GetCounters()["slice-3"] != 1 || len(inv.GetCounterSets()[0].GetCounters()) != 4 {
		t.Errorf("%d devices, of counters %v, one is %v", len(inv.GetDevices()), inv.GetCounterSets(), d)
	}
	res, err := prepare("x", "mock-0-2g-2")
	if err != nil || res.GetEdits()["mock-0-2g-2"].GetEnv()["ACCELMUX_MOCK_0_2G_2"] != "mock-0-2g-2" {
		t.Errorf("Prepare = %v, %v", res, err)
	}
	if again, err := prepare("x", "mock-0-2g-2"); err != nil || !cmp.Equal(res.GetEdits()["mock-0-2g-2"].GetEnv(), again.GetEdits()["mock-0-2g-2"].GetEnv()) {
		t.Errorf("Prepare again = %v, %v", again, err)
	}
	want("one is made", "mock-0-2g-2 x")
	if _, err := prepare("y", "mock-0-1g-0", "mock-0-1g-3"); err == nil || !strings.Contains(err.Error(), "make mock-0-1g-3: its slices are in use by mock-0-2g-2") {
		t.Errorf("Prepare of what overlaps = %v", err)
	}
	r = newRig(t, dir, settings)
	want("found by the next process", "mock-0-2g-2 x")
	release("y", "mock-0-2g-2")
	r.write("devices: {mock-0-1g-0: {exists: true}, mock-0-1g-1: {prepare: {error: the firmware refused}}}")
	want("one is made by hand", "mock-0-1g-0 ", "mock-0-2g-2 x")
	if res, err := prepare("y", "mock-0-1g-0"); err != nil || len(res.GetEdits()) != 1 {
		t.Errorf("Prepare of a partition made by hand = %v, %v", res, err)
	}
	release("y", "mock-0-1g-0")
	if _, err := prepare("y", "mock-0-1g-1"); err == nil || !strings.Contains(err.Error(), "the firmware refused") {
		t.Errorf("Prepare that fails = %v", err)
	}
	release("x", "mock-0-2g-2")
	want("one by hand is left", "mock-0-1g-0 ")
}
