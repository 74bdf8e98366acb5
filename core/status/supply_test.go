package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/topology"
)

// Verifies which resource is meant, and the sentence where none is.
func TestSupplyOf(t *testing.T) {
	stocked := func(name string) supply {
		return supply{resource: &resource.Resource{Resource: config.Resource{Name: name}, Devices: make([]resource.Device, 1)}}
	}
	empty := supply{resource: &resource.Resource{Resource: config.Resource{Name: "ex.com/none"}}}
	for name, tc := range map[string]struct {
		supplies  []supply
		name      string
		want, err string
	}{
		"by name":           {[]supply{stocked("ex.com/a"), stocked("ex.com/b")}, "ex.com/b", "ex.com/b", ""},
		"the only one":      {[]supply{stocked("ex.com/a")}, "", "ex.com/a", ""},
		"the only in stock": {[]supply{empty, stocked("ex.com/a")}, "", "ex.com/a", ""},
		"an empty one":      {[]supply{empty, stocked("ex.com/a")}, "ex.com/none", "ex.com/none", ""},
		"the only, empty":   {[]supply{empty}, "", "ex.com/none", ""},
		"none in stock":     {[]supply{empty, empty}, "", "", "there are several resources, so name one: ex.com/none, ex.com/none"},
		"which":             {[]supply{stocked("ex.com/a"), stocked("ex.com/b")}, "", "", "there are several resources, so name one: ex.com/a, ex.com/b"},
		"a slip":            {[]supply{stocked("ex.com/gpu")}, "ex.com/gpv", "", `the node has no resource "ex.com/gpv"; did you mean "ex.com/gpu"?`},
		"another":           {[]supply{stocked("ex.com/gpu")}, "other.io/fpga", "", `the node has no resource "other.io/fpga"; there are ex.com/gpu`},
		"nothing":           {nil, "ex.com/gpu", "", errNothing.Error()},
	} {
		got, err := supplyOf(tc.supplies, tc.name)
		switch {
		case tc.err != "":
			if err == nil || err.Error() != tc.err {
				t.Errorf("%s: %v, want %s", name, err, tc.err)
			}
		case err != nil || got.resource.Name != tc.want:
			t.Errorf("%s: %+v, %v, want %s", name, got, err, tc.want)
		}
	}
}

// Verifies which units the diagram of a resource shows as allocated, and to whom, and what claims have of a device that
// they share.
func TestTopologyShowsHolders(t *testing.T) {
	r := &resource.Resource{Resource: config.Resource{Name: "ex.com/a", Replicas: 1}}
	for _, id := range []string{"a", "b", "c"} {
		d := &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}}
		r.Devices = append(r.Devices, resource.Device{Device: d, Verdict: health.Verdict{Healthy: true}})
	}
	late := &resource.Resource{Resource: config.Resource{Name: "ex.com/late"}}
	f := Facts{
		Round: round.New(round.Round{Snapshot: &inventory.Snapshot{}, Table: &resource.Table{Resources: []*resource.Resource{r, late}}}),
		Allocations: map[inventory.Key][]holders.Allocation{
			{Backend: "mock", ID: "a"}: {{Resource: "ex.com/a", Unit: "a", Containers: []podresources.Container{{Namespace: "ns", Pod: "p", Name: "c"}}}},
			{Backend: "mock", ID: "b"}: {{Resource: "ex.com/other", Unit: "b"}},
			{Backend: "mock", ID: "c"}: {{Resource: "ex.com/a", Unit: "c"}},
		},
		Kubelet: Kubelet{Topology: func(name string) *topology.Topology {
			if name == late.Name {
				return nil
			}
			return &topology.Topology{}
		}},
	}
	supplies := f.supplies()
	if len(supplies) != 1 || supplies[0].resource != r {
		t.Fatalf("supplies %+v, want that of the resource that kubelet knows", supplies)
	}
	var got []string
	for _, u := range f.diagramOf(supplies[0]).Units {
		got = append(got, fmt.Sprintf("%s %v %q", u.ID, u.Held, u.Holder))
	}
	if want := []string{`a true "ns/p/c"`, `b false ""`, `c true ""`}; !slices.Equal(got, want) {
		t.Errorf("units are %q, want %q", got, want)
	}
	r.API = config.APIDRA
	f.Allocations[inventory.Key{Backend: "mock", ID: "b"}] = []holders.Allocation{
		{Unit: "uid/b", Claim: &holders.Claim{UID: "uid", Namespace: "ns", Name: "x"}, Containers: []podresources.Container{{Namespace: "ns", Pod: "p"}}, Amounts: map[string]int64{"memory": 3}},
		{Unit: "uid-y/b", Claim: &holders.Claim{UID: "uid-y", Namespace: "ns", Name: "y"}, Amounts: map[string]int64{"memory": 4}},
	}
	f.Allocations[inventory.Key{Backend: "mock", ID: "c"}] = []holders.Allocation{{Resource: "ex.com/before", Unit: "c::0"}}
	all, err := f.topology(r.Name)
	must(t, err)
	got = nil
	for _, d := range all[0].Devices {
		got = append(got, fmt.Sprintf("%s %s %q %v", d.ID, d.Units[0].State, d.Units[0].Holder, d.Taken))
	}
	if want := []string{`a held "ns/p/c" map[]`, `b held "claim ns/x" map[memory:7]`, `c held "" map[]`}; !slices.Equal(got, want) || all[0].Policy != "" {
		t.Errorf("with dynamic resource allocation: %q, policy %q; want %q", got, all[0].Policy, want)
	}
	if _, err := f.explain(t.Context(), diagram.Question{Resource: r.Name, Size: 1}); err == nil || !strings.Contains(err.Error(), "the scheduler chooses") {
		t.Errorf("explain: %v", err)
	}
	if none, err := (Facts{}).topology(""); err != nil || none == nil || len(none) != 0 {
		t.Errorf("before the first round: %v, %v", none, err)
	}
}
