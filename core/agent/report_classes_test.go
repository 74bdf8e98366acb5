package agent

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that a class that no backend has is told of, once all have said which they
// have, with the one that was meant.
func TestClassProblems(t *testing.T) {
	described := func(name string, classes ...string) *inventory.Backend {
		return &inventory.Backend{Name: name, Description: inventory.Description{Classes: classes}}
	}
	fpga, gpu := described("fpga", "af", "region"), described("gpu", "gpu")
	for name, c := range map[string]struct {
		resource config.Resource
		backends []*inventory.Backend
		want     string // empty for none
	}{
		"a class":               {config.Resource{Class: "region"}, []*inventory.Backend{fpga, gpu}, ""},
		"any class":             {config.Resource{}, []*inventory.Backend{fpga, gpu}, ""},
		"a typo":                {config.Resource{Class: "regions"}, []*inventory.Backend{fpga, gpu}, "devices of the class regions, so the resource stays empty; did you mean \"region\"?; there are af, region, gpu"},
		"of another":            {config.Resource{Class: "gpu", Backend: "fpga"}, []*inventory.Backend{fpga, gpu}, "there are af, region"},
		"of this one":           {config.Resource{Class: "gpu", Backend: "gpu"}, []*inventory.Backend{gpu}, ""},
		"one has said nothing":  {config.Resource{Class: "regions"}, []*inventory.Backend{fpga}, ""},
		"the other has":         {config.Resource{Class: "regions", Backend: "fpga"}, []*inventory.Backend{fpga}, "did you mean \"region\"?"},
		"one that is not ready": {config.Resource{Class: "regions"}, []*inventory.Backend{fpga, described("gpu")}, ""},
	} {
		c.resource.Name = "example.com/x"
		profile := &config.Profile{Backends: []config.Backend{{Name: "fpga"}, {Name: "gpu"}}, Resources: []config.Resource{c.resource}}
		got := classProblems(profile, c.backends)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].Resource != "example.com/x" || !strings.Contains(got[0].Message, c.want)) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
