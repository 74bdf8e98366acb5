package deviceplugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// TestUnits verifies that the replicas of a device are units that share its verdict, and
// that IDs which become too long are reported.
func TestUnits(t *testing.T) {
	long := strings.Repeat("x", 60)
	r := &resource.Resource{Devices: []resource.Device{
		{Device: &inventory.Device{Key: inventory.Key{Backend: "b", ID: "B"}}, Verdict: health.Verdict{Healthy: true}},
		{Device: &inventory.Device{Key: inventory.Key{Backend: "b", ID: long}}},
	}}
	for replicas, want := range map[int][]string{
		0: {"B", long}, 1: {"B", long}, 2: {"B::0", "B::1", long + "::0", long + "::1"},
	} {
		r.Resource = config.Resource{Replicas: replicas}
		var got []string
		for _, u := range Units(r) {
			got = append(got, u.ID)
			if u.Verdict.Healthy != (u.Device.ID == "B") {
				t.Errorf("unit %s is healthy: %v", u.ID, u.Verdict.Healthy)
			}
		}
		if notes := longIDNotes(r); !slices.Equal(got, want) || len(notes) > 0 {
			t.Errorf("%d replicas are %q and %q, want %q", replicas, got, notes, want)
		}
	}
	r.Replicas = 11
	if notes := longIDNotes(r); len(notes) != 1 || !strings.Contains(notes[0], "with 11 replicas the IDs of 1 devices ("+long+") become longer than the 63") {
		t.Errorf("notes %q", notes)
	}
}

func TestSplitUnitID(t *testing.T) {
	tests := map[string]struct {
		device  string
		replica int
		ok      bool
	}{
		"GPU-1::0":        {"GPU-1", 0, true},
		"a::1::2":         {"a::1", 2, true},
		"GPU-1::":         {"GPU-1::", 0, false},
		"GPU-1::01":       {"GPU-1::01", 0, false},
		"GPU-1::-1":       {"GPU-1::-1", 0, false},
		"GPU-1::+1":       {"GPU-1::+1", 0, false},
		"GPU::4294967296": {"GPU::4294967296", 0, false},
		"::1":             {"::1", 0, false},
	}
	for id, want := range tests {
		if device, replica, ok := SplitUnitID(id); device != want.device || replica != want.replica || ok != want.ok {
			t.Errorf("SplitUnitID(%q) = %q, %d, %v; want %q, %d, %v", id, device, replica, ok, want.device, want.replica, want.ok)
		}
	}
}
