package status

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/profile"
)

// Verifies which problems are one, and how they read.
func TestFold(t *testing.T) {
	for name, c := range map[string]struct {
		problems []Problem
		want     []string
	}{
		"none": {nil, nil},
		"no devices": {
			[]Problem{{Backend: "a", Message: "x"}, {Backend: "a", Message: "x"}, {Message: "y"}},
			[]string{"backend a: x", "backend a: x", "y"},
		},
		"the same message": {
			[]Problem{{Backend: "a", Device: "d0", Message: "lost"}, {Message: "y"}, {Backend: "a", Device: "d1", Message: "lost"}},
			[]string{"backend a, 2 devices (d0, d1): lost", "y"},
		},
		"their IDs": {
			[]Problem{{Resource: "r", Device: "x", Message: "x is bad"}, {Resource: "r", Device: "y", Message: "y is bad"}},
			[]string{"resource r, 2 devices (x, y): x is bad (x; similar for the others)"},
		},
		"numbers": {
			[]Problem{
				{Device: "a", Message: "no /dev/accel0 at 0000:b5:00.0"}, {Device: "b", Message: "no /dev/accel11 at 0000:05:00.0"},
				{Device: "c", Message: "no /dev/accel2"},
			},
			[]string{"2 devices (a, b): no /dev/accel0 at 0000:b5:00.0 (a; similar for the others)", "device c: no /dev/accel2"},
		},
		"several of each device": {
			[]Problem{{Device: "a", Message: "lost 1"}, {Device: "a", Message: "lost 2"}, {Device: "b", Message: "lost 1"}, {Device: "b", Message: "lost 2"}},
			[]string{"2 devices (a, b): lost 1", "2 devices (a, b): lost 2"},
		},
		"other backends, other words": {
			[]Problem{{Backend: "a", Device: "d", Message: "bad"}, {Backend: "b", Device: "d", Message: "bad"}, {Backend: "b", Device: "d", Message: "dead"}},
			[]string{"backend a, device d: bad", "backend b, device d: bad", "backend b, device d: dead"},
		},
	} {
		var got []string
		for _, p := range fold(c.problems) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var many []Problem
	for i := range 100 {
		many = append(many, Problem{Backend: "a", Device: fmt.Sprintf("d%d", i), Message: "lost"})
	}
	got := fold(many)
	if want := "backend a, 100 devices (d0, d1, d2, d3, d4, d5, d6, d7 and 92 more): lost"; len(got) != 1 || got[0].String() != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Verifies what is ready, and how that reads.
func TestReadiness(t *testing.T) {
	gpu := profile.Status{Profile: "gpu"}
	for _, c := range []struct {
		report Report
		want   string
		ready  bool
	}{
		{Report{Config: gpu}, "ready", true},
		{Report{Config: gpu, NotReady: []string{"x", "y"}, Problems: make([]Problem, 1)}, "not ready: x; y", false},
		{Report{Config: gpu, Problems: []Problem{{Message: "x"}}}, "ready, with 1 problem:\n  x", true},
		{Report{Config: gpu, Problems: []Problem{{Message: "x"}, {Backend: "a", Message: "y"}}}, "ready, with 2 problems:\n  x\n  backend a: y", true},
		{Report{Config: gpu, Role: RoleStandby}, "ready to take over", true},
		{Report{Config: gpu, Role: RoleStandby, NotReady: []string{"x"}}, "not ready: x", false},
		{Report{Config: profile.Status{Reason: "no label"}}, "ready, with nothing to do: no label", true},
	} {
		if text, ready := c.report.Readiness(); text != c.want || ready != c.ready {
			t.Errorf("%q, %v; want %q, %v", text, ready, c.want, c.ready)
		}
	}
}
