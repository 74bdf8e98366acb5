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
	links := []string{"sumOfLinks", "weakestLink", "-numaNodes"}
	rest := []string{"-physicalDevices", "linksLeft", "load"}
	for name, tc := range map[string]struct {
		units   []Unit
		options Options
		want    []string
	}{
		"best-links":    {dgx1(), Options{}, slices.Concat(links, rest)},
		"weakest first": {dgx1(), Options{WeakestFirst: true}, slices.Concat([]string{"weakestLink", "sumOfLinks", "-numaNodes"}, rest)},
		"replicas":      {replicas(dgx1(), 2), Options{}, slices.Concat([]string{"-repeatedDevices"}, links, []string{"-load", "linksLeft"})},
		"spread":        {dgx1(), Options{Policy: Spread}, slices.Concat([]string{"physicalDevices", "-pairsTogether", "-repeatedDevices"}, links, []string{"-load", "linksLeft"})},
		"pack":          {dgx1(), Options{Policy: Pack}, slices.Concat([]string{"-physicalDevices", "pairsTogether", "repeatedDevices"}, links, []string{"load", "linksLeft"})},
		"none":          {dgx1(), Options{Policy: None}, nil},
	} {
		r := Prepare(tc.units, tc.options).Choose(Request{Size: 1})
		if got := aspects(r.Parts); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	none, weak := Part{Aspect: WeakestLink, Value: -1}, Part{Aspect: WeakestLink, Value: maxValue}
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
