package inventory

import (
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// slice is a device that consumes slices of a GPU's memory; a potential one for n < 0.
func slice(id string, n int64) *backendv1.Device {
	d := wireDevice(id)
	if d.Potential = n < 0; d.Potential {
		d.Edits, n = nil, -n
	}
	d.Consumes = []*backendv1.CounterConsumption{{CounterSet: "gpu-0", Counters: map[string]int64{"memory": n}}}
	return d
}

func withSets(report *backendv1.Inventory, sets ...*backendv1.CounterSet) *backendv1.Inventory {
	report.CounterSets = append(sets, &backendv1.CounterSet{Name: "gpu-0", Counters: map[string]int64{"memory": 8}})
	return report
}

// Verifies that existing devices must fit into their counter sets together, potential ones each
// alone.
func TestCounters(t *testing.T) {
	for name, tc := range map[string]struct {
		devices []*backendv1.Device
		stay    string
		want    string // part of the problem
	}{
		"all fit":          {[]*backendv1.Device{slice("a", 4), slice("b", 4)}, "a b", ""},
		"too much":         {[]*backendv1.Device{slice("a", 4), slice("b", 5), slice("c", 4)}, "a c", "consumes 5 of counter memory of set \"gpu-0\", of which 4 are left"},
		"potential":        {[]*backendv1.Device{slice("a", 8), slice("b", -8), slice("c", -4)}, "a b c", ""},
		"potential, large": {[]*backendv1.Device{slice("a", -9), slice("b", 1)}, "b", "of which 8 are left"},
		"other counter": {func() []*backendv1.Device {
			d := slice("b", 1)
			d.Consumes[0].Counters = map[string]int64{"slices": 1}
			return []*backendv1.Device{slice("a", 1), d}
		}(), "a", "which does not exist"},
		"nothing": {[]*backendv1.Device{slice("a", 1), slice("b", 0)}, "a", "at least 1"},
		"of one set twice": {func() []*backendv1.Device {
			d := slice("b", 1)
			d.Consumes = append(d.Consumes, d.Consumes[0])
			return []*backendv1.Device{slice("a", 1), d}
		}(), "a", "twice"},
		"of three sets": {func() []*backendv1.Device {
			d := slice("b", 1)
			d.Consumes = append(d.Consumes, nil, nil)
			return []*backendv1.Device{slice("a", 1), d}
		}(), "a", "of 3 counter sets"},
		"made": {func() []*backendv1.Device {
			d := slice("a", 1)
			d.MadeFor = "uid"
			return []*backendv1.Device{d, slice("b", 7)}
		}(), "a b", ""},
		"made, potential": {func() []*backendv1.Device {
			d := slice("b", -1)
			d.MadeFor = "uid"
			return []*backendv1.Device{slice("a", 1), d}
		}(), "a", "one of both"},
		"made for nobody": {func() []*backendv1.Device {
			d := slice("b", 1)
			d.MadeFor = "a b"
			return []*backendv1.Device{slice("a", 1), d}
		}(), "a", "printable ASCII"},
		"potential without hook": {func() []*backendv1.Device {
			d := slice("b", -1)
			d.Hooks = d.Hooks[:1]
			return []*backendv1.Device{slice("a", 1), d}
		}(), "a", "both hooks"},
		"slow without hook": {func() []*backendv1.Device {
			d := slice("b", 1)
			d.SlowToPrepare, d.Hooks = true, nil
			return []*backendv1.Device{slice("a", 1), d}
		}(), "a", "must have the prepare hook"},
	} {
		s, _ := newTestStore(t)
		b := mustReport(t, s, withSets(inv(1, tc.devices...)))
		problems := len(b.Problems) == 0
		if tc.want != "" {
			problems = len(b.Problems) == 1 && strings.Contains(b.Problems[0].Message, tc.want)
		}
		if ids(b.Devices) != tc.stay || !problems || len(b.CounterSets) != 1 {
			t.Errorf("%s: devices %s, want %s, problems %+v, want %q", name, ids(b.Devices), tc.stay, b.Problems, tc.want)
		}
	}
}

func TestCounterSets(t *testing.T) {
	good := &backendv1.CounterSet{Name: "a", Counters: map[string]int64{"x": 0}}
	for want, sets := range map[string][]*backendv1.CounterSet{
		"":                        {good},
		"must be a DNS label":     {{Name: "A", Counters: good.Counters}, good},
		"another one with":        {good, good},
		"has 0 counters":          {{Name: "b"}, good},
		"its counter x is -1":     {{Name: "b", Counters: map[string]int64{"x": -1}}, good},
		"the name of its counter": {{Name: "b", Counters: map[string]int64{"X": 1}}, good},
	} {
		s, _ := newTestStore(t)
		b := mustReport(t, s, withSets(inv(1, slice("d", 1)), sets...))
		right := len(b.Problems) == 0
		if want != "" {
			right = len(b.Problems) == 1 && strings.Contains(b.Problems[0].Message, want)
		}
		if !right || len(b.CounterSets) != 2 || b.CounterSets[0].Name != "a" || len(b.Devices) != 1 {
			t.Errorf("want %q: problems %+v, sets %+v", want, b.Problems, b.CounterSets)
		}
	}
}
