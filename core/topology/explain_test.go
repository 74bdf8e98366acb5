package topology

import (
	"context"
	"slices"
	"testing"
)

// aspects are those of parts, "-" before those of which less is better.
func aspects(parts []Part) (out []string) {
	for _, p := range parts {
		name := string(p.Aspect)
		if p.Less {
			name = "-" + name
		}
		out = append(out, name)
	}
	return out
}

// TestParts verifies what is compared under each policy, in which order.
func TestParts(t *testing.T) {
	left := []string{"eightsLeft", "foursLeft", "pairsLeft", "nearPairsLeft"}
	links := []string{"sumOfLinks", "weakestLink", "-numaNodes"}
	for name, tc := range map[string]struct {
		units   []Unit
		options Options
		want    []string
	}{
		"best-links":    {dgx1(), Options{}, slices.Concat(links, left, []string{"-physicalDevices", "load"})},
		"weakest first": {dgx1(), Options{WeakestFirst: true}, slices.Concat([]string{"weakestLink", "sumOfLinks", "-numaNodes"}, left, []string{"-physicalDevices", "load"})},
		"replicas":      {replicas(dgx1(), 2), Options{}, slices.Concat([]string{"-repeatedDevices"}, links, []string{"-load", "-physicalDevices"})},
		"spread":        {dgx1(), Options{Policy: Spread}, slices.Concat([]string{"physicalDevices", "-pairsTogether", "-repeatedDevices"}, links, []string{"-load"}, left)},
		"pack":          {dgx1(), Options{Policy: Pack}, slices.Concat([]string{"-physicalDevices", "pairsTogether", "repeatedDevices"}, links, []string{"load"}, left)},
		"none":          {dgx1(), Options{Policy: None}, nil},
	} {
		topology := Prepare(tc.units, tc.options)
		if got := aspects(topology.Parts(Result{})); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	none, weak := Part{Aspect: WeakestLink, Value: -1}, Part{Aspect: WeakestLink, Value: MaxWeight}
	if none.Compare(weak) <= 0 || weak.Compare(none) >= 0 || none.Compare(none) != 0 {
		t.Error("no pair is worse than a pair")
	}
}

// TestPartial verifies that an explanation without time says so, and has the choice.
func TestPartial(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	units := dgx1()
	e := Prepare(units, Options{}).Explain(ended, Request{Available: ids(units), Size: 2})
	if !e.Partial || e.RunnerUp != nil || e.Equal || len(e.IDs) != 2 {
		t.Errorf("explained without time: %+v", e)
	}
	e = Prepare(units, Options{}).Explain(t.Context(), Request{Available: ids(units), Size: 2})
	if e.Partial || e.RunnerUp == nil {
		t.Errorf("explained: %+v", e)
	}
}
