package round

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies what the device plugin API serves of a resource of each API, by who has one of its two
// devices: what it advertises, what it still knows, and what waits.
func TestMoves(t *testing.T) {
	claim := func(extended bool) holders.Allocation {
		return holders.Allocation{Claim: &holders.Claim{UID: "u", Namespace: "ns", Name: "c", Extended: extended}}
	}
	unit := holders.Allocation{Resource: "gpu", Unit: "a"}
	for name, c := range map[string]struct {
		api      config.API
		prepared bool
		by       holders.Allocation // has device a
		withheld bool
		devices  string // that the device plugin API knows
		waits    string
	}{
		"stays, free":                   {"", true, holders.Allocation{}, false, "a b", ""},
		"stays, a claim":                {"", true, claim(false), false, "a b", ""},
		"back, an extended resource":    {"", true, claim(true), true, "", "ns/c"},
		"back, nothing to prepare":      {"", false, claim(true), false, "a b", ""},
		"moved, free":                   {config.APIDRA, true, holders.Allocation{}, true, "", ""},
		"moved, a container":            {config.APIDRA, false, unit, true, "a", ""},
		"moved, a container, prepared":  {config.APIDRA, true, unit, true, "a", "until these are gone"},
		"moved, a claim":                {config.APIDRA, true, claim(true), true, "", ""},
		"moved, a unit of another name": {config.APIDRA, true, holders.Allocation{Resource: "other", Unit: "a"}, true, "", ""},
	} {
		a, b := deviceWith("a"), deviceWith("b")
		a.Hooks.Prepare, b.Hooks.Prepare = c.prepared, c.prepared
		r := &resource.Resource{Resource: config.Resource{Name: "gpu", API: c.api}, Devices: []resource.Device{{Device: a}, {Device: b}}}
		held := map[inventory.Key][]holders.Allocation{}
		if c.by.Claim != nil || c.by.Resource != "" {
			held[a.Key] = []holders.Allocation{c.by}
		}
		table, problems := ForDevicePlugin(&resource.Table{Resources: []*resource.Resource{r}}, held, map[string]bool{"gpu": true})
		got := table.Resources[0]
		var ids []string
		for _, d := range got.Devices {
			ids = append(ids, d.ID)
		}
		if diff := cmp.Diff(c.devices, strings.Join(ids, " ")); diff != "" || got.Withheld != c.withheld || got.Held != c.withheld {
			t.Errorf("%s: withheld %v, held %v, devices (-want +got):\n%s", name, got.Withheld, got.Held, diff)
		}
		if (len(problems) > 0) != (c.waits != "") || len(problems) > 0 && !strings.Contains(problems[0].Message, c.waits) {
			t.Errorf("%s: the problems are %v, want %q", name, problems, c.waits)
		}
	}
}

// Verifies that a device which is removed while a claim has it stays in its resource, as unhealthy.
func TestRemovedFromClaim(t *testing.T) {
	d := deviceWith("a")
	dra := config.Resource{Name: "gpu", API: config.APIDRA}
	before := New(Round{
		Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{{Name: d.Backend, Devices: []*inventory.Device{d}}}},
		Table:    &resource.Table{Resources: []*resource.Resource{{Resource: dra, Devices: []resource.Device{{Device: d}}}}},
	})
	held := map[inventory.Key][]holders.Allocation{d.Key: {{Claim: &holders.Claim{Namespace: "ns", Name: "c"}}}}
	p := &config.Profile{Backends: []config.Backend{{Name: d.Backend}}}
	for range 2 { // also in the round after
		removed := Removed(p, &inventory.Snapshot{}, held, before, nil)
		table := withAllocations(nil, &resource.Table{Resources: []*resource.Resource{{Resource: config.Resource{Name: "other", API: config.APIDRA}}, {Resource: dra}}},
			held, removed)
		if all := table.Resources[1].Devices; len(table.Resources[0].Devices) != 0 || len(all) != 1 || !strings.Contains(all[0].Verdict.Faults[0].Message, "claim ns/c has it") {
			t.Fatalf("the devices are %+v", all)
		}
		before = New(Round{Snapshot: &inventory.Snapshot{}, Table: table, Removed: removed})
	}
}

// Verifies that dynamic resource allocation leaves claims of its driver to the scheduler, and that
// what a container has by the device plugin API, or a claim by a driver of another name, is withheld.
func TestHeldByTheOtherAPI(t *testing.T) {
	p := &config.Profile{Backends: []config.Backend{{Name: "mock", DRA: config.DRA{Driver: "gpu.example.com"}}}}
	for by, want := range map[*holders.Allocation]bool{
		{Claim: &holders.Claim{Driver: "gpu.example.com"}}:  false,
		{Claim: &holders.Claim{Driver: "mock.accelmux.io"}}: true, // the driver was renamed
		{Resource: "gpu", Unit: "a"}:                        true,
		{Resource: "gpu", Unit: "a::1"}:                     true,
	} {
		d := deviceWith("a")
		by.Device = d.Key
		table := withAllocations(p, &resource.Table{Resources: []*resource.Resource{{
			Resource: config.Resource{Name: "gpu", API: config.APIDRA}, Devices: []resource.Device{{Device: d}},
		}}}, map[inventory.Key][]holders.Allocation{d.Key: {*by}}, nil)
		if got := IsHeldElsewhere(table.Resources[0].Devices[0].Verdict); got != want {
			t.Errorf("held by %+v, it is withheld: %v, want %v", *by, got, want)
		}
	}
}
