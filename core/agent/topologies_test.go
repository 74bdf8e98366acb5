package agent

import (
	"errors"
	"testing"

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies which resource is meant, and the sentence where none is.
func TestSupplyOf(t *testing.T) {
	stocked := func(name string) supply {
		return supply{resource: &resource.Resource{Name: name, Units: make([]resource.Unit, 1)}}
	}
	empty := supply{resource: &resource.Resource{Name: "ex.com/none"}}
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

// Verifies that an agent which stands by has nothing to show, and says so.
func TestTopologyOnStandby(t *testing.T) {
	all, err := (&turns{}).Topology("")
	if err != nil || all == nil || len(all) != 0 {
		t.Errorf("topology %v, %v", all, err)
	}
	if _, err := (&turns{}).Explain(t.Context(), diagram.Question{Size: 1}); !errors.Is(err, errNothing) {
		t.Errorf("explained: %v", err)
	}
}
