package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that a backend that puts ever new values into its labels gets few series in an
// hour, with a problem, that its earlier series stay, and that it gets new ones later.
func TestSeriesOverTime(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	spent := &budget{}
	var newest *sample
	take := func(at time.Duration, label string, count int) {
		spent.turn(start.Add(at))
		r := anything
		r.budget = spent
		metrics := []*backendv1.Metric{gauge("d", "power_watts", 1)}
		for i := range count {
			metrics = append(metrics, with(gauge("d", "x_ratio", 1), map[string]string{"a": fmt.Sprint(label, i)}))
		}
		newest = parse(metrics, false, r)
	}
	want := func(points int, problem string) {
		t.Helper()
		got := fmt.Sprint(newest.violations)
		if len(newest.points) != points || problem == "" != (len(newest.violations) == 0) || !strings.Contains(got, problem) {
			t.Errorf("%d series, want %d; violations %s, want %q", len(newest.points), points, got, problem)
		}
	}
	limit := seriesLimit(1)
	take(0, "fixed", 100)
	want(101, "")
	for second := range 60 {
		take(time.Duration(second)*time.Second, fmt.Sprint("new-", second, "-"), 1000)
	}
	if n := len(newest.points); n > 2 || len(newest.violations) == 0 {
		t.Errorf("%d series, want 2 at most; violations %v", n, newest.violations)
	}
	take(time.Minute, "fixed", 100)
	want(101, "")
	take(2*time.Minute, "a few", 10)
	want(11, "")
	take(seriesWindow, "fixed", 100)
	take(seriesWindow, "later", limit)
	want(limit-100, "may have no more now")
	if n := len(spent.now) + len(spent.before); n > 4*limit {
		t.Errorf("%d series are remembered", n)
	}
}
