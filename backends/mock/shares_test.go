package mock

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that devices with shares are shareable by amounts, and that each holder gets its own amounts.
func TestShares(t *testing.T) {
	r := newRig(t, t.TempDir(), `{"memory": "8Gi", "shares": {"memory": "1Gi", "compute": 10}}`)
	d := device(r.Until("the first inventory", anyInventory), "mock-0")
	if p := d.GetRequestPolicies(); !d.GetShareable() || d.GetCapacities()["compute"] != 100 || p["memory"].GetDefault() != 1<<30 || p["compute"].GetDefault() != 10 ||
		!cmp.Equal(d.GetHooks(), []backendv1.Hook{backendv1.Hook_HOOK_PREPARE}) {
		t.Errorf("the device is %v", d)
	}
	for holder, want := range map[string]map[string]string{
		"x": {"ACCELMUX_MOCK_0_MEMORY": "2147483648", "ACCELMUX_MOCK_0_COMPUTE": "50"},
		"y": {"ACCELMUX_MOCK_0_MEMORY": "1073741824", "ACCELMUX_MOCK_0_COMPUTE": "25"},
		"z": nil, // no share, as by the device plugin API
	} {
		held := &backendv1.HeldDevice{Id: "mock-0", Shared: true, Capacities: map[string]map[string]int64{
			"x": {"memory": 2 << 30, "compute": 50}, "y": {"memory": 1 << 30, "compute": 25},
		}[holder]}
		res, err := r.Prepare(t.Context(), &backendv1.PrepareRequest{Holder: &backendv1.Holder{Id: holder}, Devices: []*backendv1.HeldDevice{held}})
		if diff := cmp.Diff(want, res.GetEdits()["mock-0"].GetEnv()); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", holder, err, diff)
		}
	}
}

// Verifies that shares can be of any capacity, with bounds of what claims request, and of partitions, which have their
// parts of it.
func TestSharesOfPartitions(t *testing.T) {
	r := newRig(t, t.TempDir(), `{"id": "nic-{{.Index}}", "memory": "8Gi", "capacities": {"bandwidth": "100G", "vfs": 100}, "partitions": {"count": 4},
		"shares": {"bandwidth": {"default": "1G", "min": "100M", "max": "10G", "step": "1M"}, "vfs": {"default": 1, "values": [1, 2]}, "compute": 5}}`)
	d := device(r.Until("the first inventory", anyInventory), "nic-0-p3")
	if diff := cmp.Diff(map[string]int64{"bandwidth": 25e9, "vfs": 25, "memory": 2 << 30, "compute": 25}, d.GetCapacities()); diff != "" || !d.GetShareable() {
		t.Errorf("the capacities of %v (-want +got):\n%s", d, diff)
	}
	p := d.GetRequestPolicies()
	if b := p["bandwidth"]; b.GetDefault() != 1e9 || b.GetRange().GetMin() != 1e8 || b.GetRange().GetMax() != 1e10 || b.GetRange().GetStep() != 1e6 ||
		!cmp.Equal(p["vfs"].GetValues(), []int64{1, 2}) || p["vfs"].GetRange() != nil || p["memory"] != nil || p["compute"].GetRange().GetStep() != 1 {
		t.Errorf("the policies are %v", p)
	}
}
