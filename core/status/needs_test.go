package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// TestNeeds verifies that a report has what a manifest has and whether it is accepted, within its bounds.
func TestNeeds(t *testing.T) {
	running := supervisor.Status{Description: inventory.Description{Name: "acme", Edits: inventory.EditScope{
		Devices: []string{"/dev/acme*"}, ReadOnlyMounts: []string{"/opt/acme/**"}, Env: []string{"ACME_*"},
	}}}
	lists := config.EditPolicy{Declared: config.AcceptDeclared, Devices: []string{"/dev/kvm"}, GIDs: []int{7}}
	all := Edits{Devices: []string{"/dev/acme*"}, ReadOnlyMounts: []string{"/opt/acme/**"}, Env: []string{"ACME_*"}}
	listed := Edits{Devices: []string{"/dev/kvm"}, GIDs: []uint32{7}}
	check := func(want *Needs, summary string) {
		t.Helper()
		got := needs(&config.Backend{Allow: lists}, running)
		if diff := cmp.Diff(want, got); diff != "" || got.Summary() != summary {
			t.Errorf("summary %q, want %q (-want +got):\n%s", got.Summary(), summary, diff)
		}
	}
	check(&Needs{Acceptance: "accept", Declared: all, Listed: listed}, "declared")
	lists.Declared = config.RefuseDeclared
	check(&Needs{Acceptance: "refuse", Declared: all, Listed: listed}, "listed")

	lists.Declared = config.AcceptDeclared
	running.Description.Edits = inventory.EditScope{}
	check(&Needs{Acceptance: "accept", Listed: listed}, "")

	long := "/dev/" + strings.Repeat("x", 4000)
	got := edits(inventory.EditScope{Devices: []string{long, long, long, long, long, long, long, long, long, long}, Mounts: []string{"/a/b"}})
	if len(got.Devices) != 9 || got.Devices[8] != "and 2 more" || got.Mounts[0] != "and 1 more" {
		t.Errorf("%d devices, the last %s, and the mounts %q", len(got.Devices), got.Devices[len(got.Devices)-1], got.Mounts)
	}
	if needs(nil, running) != nil || needs(&config.Backend{}, supervisor.Status{}) != nil {
		t.Error("a backend that is not known has needs")
	}
}
