package status

import (
	"cmp"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
)

// Verifies that a class that no backend has is reported, once all have reported which they
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

// Verifies that a name made of an attribute that no device has is told of if it looks
// like a typo, and not if the attribute may be there on other nodes.
func TestPlaceholderProblems(t *testing.T) {
	device := func(class string, attributes ...string) *inventory.Device {
		named := map[string]inventory.Attribute{}
		for _, name := range attributes {
			named[name] = inventory.Attribute{}
		}
		return &inventory.Device{Class: class, Attributes: inventory.Named(named)}
	}
	backends := []*inventory.Backend{
		{Name: "fpga", Devices: []*inventory.Device{device("af", "model", "functionName"), device("region", "regionName")}},
		{Name: "gpu", Devices: []*inventory.Device{device("gpu", "model", "memoryClock")}},
	}
	for name, c := range map[string]struct {
		resource config.Resource
		want     string // empty for none
	}{
		"an attribute":                {config.Resource{Name: "e.com/{functionName}"}, ""},
		"of some devices":             {config.Resource{Name: "e.com/{model}"}, ""},
		"a typo":                      {config.Resource{Name: "e.com/{functionname}"}, "no device has the attribute functionname, of which the name is made, so there is no such resource; did you mean \"functionName\"?"},
		"one of two":                  {config.Resource{Name: "e.com/{model}-{regionname}"}, "regionName"},
		"of another class":            {config.Resource{Name: "e.com/{functionname}", Class: "region"}, ""},
		"of another backend":          {config.Resource{Name: "e.com/{functionname}", Backend: "gpu"}, ""},
		"that other nodes may have":   {config.Resource{Name: "e.com/{computePartition}"}, ""},
		"a fact":                      {config.Resource{Name: "e.com/{accelmux.io/backend}"}, ""},
		"no placeholder":              {config.Resource{Name: "e.com/functionname"}, ""},
		"none, and no devices either": {config.Resource{Name: "e.com/{functionname}", Class: "card"}, ""},
	} {
		got := placeholderProblems(&config.Profile{Resources: []config.Resource{c.resource}}, backends)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].Resource != c.resource.Name || !strings.Contains(got[0].Message, c.want)) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

// Verifies that a device which no resource selects is a problem, unless what it is a part
// of, or a part of it, is selected, or another problem says why: it is unhealthy, or its
// selector failed.
func TestUnselectedDevices(t *testing.T) {
	device := func(id, parent string) *inventory.Device {
		return &inventory.Device{Key: inventory.Key{Backend: "b", ID: id}, Parent: parent, Class: "c"}
	}
	potential := device("potential", "")
	potential.Potential = true
	card, region, free, odd, ill := device("card", ""), device("region", "card"), device("free", ""), device("odd", ""), device("ill", "")
	for name, c := range map[string]struct {
		selected *inventory.Device
		want     string
	}{
		"a part":           {region, "free it can make 1"},
		"what has parts":   {card, "free it can make 1"},
		"another":          {free, "card region it can make 1"},
		"another one, odd": {odd, "card region free it can make 1"},
	} {
		v := round.Round{
			Profile:  &config.Profile{Name: "p", Backends: []config.Backend{{Name: "b"}}},
			Health:   &health.View{},
			Unusable: map[inventory.Key]health.Fault{ill.Key: {Code: "device-node-missing"}},
			Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "b", Devices: []*inventory.Device{card, region, free, odd, ill, potential}}}},
			Table: &resource.Table{
				Resources: []*resource.Resource{{Resource: config.Resource{Name: "x/r"}, Devices: []resource.Device{{Device: c.selected}}}},
				Problems:  []inventory.Problem{{Device: "odd", Message: "the selector failed on this device"}},
			},
		}
		for _, d := range v.Snapshot.Backends[0].Devices {
			if d != c.selected {
				v.Table.Unassigned = append(v.Table.Unassigned, d.Key)
			}
		}
		var got []string
		for _, p := range (Facts{Round: round.New(v)}).unselectedProblems() {
			got = append(got, cmp.Or(p.Device, p.Message[:len("it can make 1")]))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s is selected: problems with %q, want %q", name, got, c.want)
		}
	}
}
