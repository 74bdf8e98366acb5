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
