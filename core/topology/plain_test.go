package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
)

// on makes units without links, each with the NUMA node given; -1 is unknown.
func on(nodes ...int) []Unit {
	var units []Unit
	for i, node := range nodes {
		d := &inventory.Device{Key: inventory.Key{ID: fmt.Sprintf("d%d", i)}}
		if node >= 0 {
			d.NUMANodes = []int{node}
		}
		units = append(units, Unit{ID: d.ID, Device: d, Healthy: true})
	}
	return units
}

// TestNoLinks asks devices of which nothing is known but their NUMA nodes.
func TestNoLinks(t *testing.T) {
	both := Unit{ID: "both", Device: &inventory.Device{Key: inventory.Key{ID: "both"}, NUMANodes: []int{0, 1}}, Healthy: true}
	for name, tc := range map[string]struct {
		units []Unit
		gone  []string
		must  []string
		size  int
		want  string
	}{
		"nothing":                 {nil, nil, nil, 2, ""},
		"none asked":              {on(0, 1), nil, nil, 0, ""},
		"short":                   {on(0), nil, nil, 3, "d0"},
		"the tightest node":       {on(0, 0, 0, 1, 1), nil, nil, 2, "d3 d4"},
		"the only node that fits": {on(0, 0, 0, 1, 1), nil, nil, 3, "d0 d1 d2"},
		"the largest, then a fit": {on(0, 1, 1, 2, 2, 2), nil, nil, 4, "d0 d3 d4 d5"},
		"beside must":             {on(0, 1, 0, 1, 1), nil, []string{"d0"}, 2, "d0 d2"},
		"unknown last":            {on(-1, 0, 0), nil, nil, 2, "d1 d2"},
		"unknown fills up":        {on(-1, 0), nil, nil, 2, "d0 d1"},
		"all unknown":             {on(-1, -1, -1), nil, nil, 2, "d0 d1"},
		"a device on two nodes":   {append(on(0, 1), both), nil, nil, 2, "both d0"},
		"replicas spread":         {replicas(on(0, 0), 3), nil, nil, 2, "d0::0 d1::0"},
		"spread before NUMA":      {replicas(on(0, 1), 3), nil, nil, 2, "d0::0 d1::0"},
		"more than devices":       {replicas(on(0, 0), 3), nil, nil, 3, "d0::0 d0::1 d1::0"},
		"away from must's device": {replicas(on(0, 0), 2), nil, []string{"d0::0"}, 2, "d0::0 d1::0"},
		"the device with more":    {replicas(on(0, 0), 3), []string{"d0::0"}, nil, 1, "d1::0"},
		"one asked of two nodes":  {on(0, 1), nil, nil, 1, "d0"},
		"must is unknown":         {on(1), nil, []string{"gone"}, 2, "d0 gone"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Prepare(tc.units, Options{}).Choose(Request{Available: without(ids(tc.units), tc.gone...), Must: tc.must, Size: tc.size})
			if got := strings.Join(r.IDs, " "); got != tc.want {
				t.Errorf("chosen %s, want %s; %+v %+v by %s", got, tc.want, r.Parts, r.Left, r.Method)
			}
		})
	}
}
