package telemetry

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// anything has every device whose name does not begin with "no-".
var anything = rules{reserved: []string{"healthy"}, known: func(id string) bool { return !strings.HasPrefix(id, "no-") }}

// Verifies for every rule that a metric that breaks it is left out and reported, and that the
// metrics before and after it are not.
func TestRules(t *testing.T) {
	labels := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all["l"+strings.Repeat("x", i)] = "v"
		}
		return all
	}
	for name, c := range map[string]struct {
		bad  *backendv1.Metric
		want string
	}{
		"empty name":        {gauge("d", "", 1), "a name is"},
		"line break":        {gauge("d", "x 1\naccelmux_ready", 1), "a name is"},
		"long name":         {gauge("d", strings.Repeat("x", 65), 1), "at most 64"},
		"the core's":        {gauge("d", "healthy", 1), "reserved for the core"},
		"histogram":         {gauge("d", "latency_bucket", 1), "_bucket"},
		"percent":           {gauge("d", "utilization_percent", 1), "use ratio"},
		"scaled counter":    {counter("d", "energy_millijoules_total", 1), "use joules"},
		"no kind":           {&backendv1.Metric{DeviceId: "d", Name: "x_ratio"}, "a gauge or a counter"},
		"gauge in _total":   {gauge("d", "resets_total", 1), "end in _total"},
		"counter without":   {counter("d", "resets", 1), "end in _total"},
		"NaN":               {gauge("d", "x_ratio", math.NaN()), "NaN"},
		"infinite":          {gauge("d", "x_ratio", math.Inf(-1)), "Inf"},
		"negative counter":  {counter("d", "resets_total", -1), "negative"},
		"nine labels":       {with(gauge("d", "x_ratio", 1), labels(9)), "9 labels"},
		"our label":         {with(gauge("d", "x_ratio", 1), map[string]string{"pod": "x"}), "label pod is reserved"},
		"label of claims":   {with(gauge("d", "x_ratio", 1), map[string]string{"claim": "x"}), "label claim is reserved"},
		"label of monitors": {with(gauge("d", "x_ratio", 1), map[string]string{"le": "1"}), "label le is reserved"},
		"name of a label":   {with(gauge("d", "x_ratio", 1), map[string]string{"__name__": "x"}), "a name is"},
		"label's value":     {with(gauge("d", "x_ratio", 1), map[string]string{"a": "x\ny"}), "control characters"},
		"label's bytes":     {with(gauge("d", "x_ratio", 1), map[string]string{"a": "\xff"}), "not valid UTF-8"},
		"long label":        {with(gauge("d", "x_ratio", 1), map[string]string{"a": strings.Repeat("x", 129)}), "at most 128"},
		"twice":             {gauge("first", "power_watts", 2), "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse([]*backendv1.Metric{gauge("first", "power_watts", 1), c.bad, counter("last", "resets_total", 3)}, false, anything)
			if len(s.points) != 2 || s.points[0].value != 1 || s.points[1].value != 3 {
				t.Errorf("kept %+v, want the first and the last", s.points)
			}
			if len(s.violations) != 1 || !strings.Contains(s.violations[0].text, c.want) {
				t.Errorf("violations %v, want one with %q", s.violations, c.want)
			}
		})
	}
	t.Run("eight labels", func(t *testing.T) {
		if s := parse([]*backendv1.Metric{with(gauge("d", "x_ratio", 1), labels(8))}, false, anything); len(s.points) != 1 {
			t.Errorf("refused: %v", s.violations)
		}
	})
}

// Verifies that a device that is not in the inventory is left out, and reported only if the
// previous sample had such devices, too: it may have been removed just now.
func TestUnknownDevices(t *testing.T) {
	metrics := []*backendv1.Metric{gauge("no-1", "power_watts", 1), gauge("d", "power_watts", 2), gauge("no-1", "x_ratio", 1)}
	first := parse(metrics, false, anything)
	second := parse(metrics, first.hasUnknown, anything)
	if len(first.points) != 1 || len(first.violations) != 0 {
		t.Errorf("the first time: %+v, %v", first.points, first.violations)
	}
	if len(second.points) != 1 || len(second.violations) != 1 || !strings.Contains(second.violations[0].text, "(and 1 more)") {
		t.Errorf("the second time: %+v, %v", second.points, second.violations)
	}
}

// Verifies that a sample is bounded, whatever is sent.
func TestBounds(t *testing.T) {
	metrics := make([]*backendv1.Metric, maxMetrics+10)
	for i := range metrics {
		metrics[i] = gauge("d"+strings.Repeat("x", i%60)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676%26))+string(rune('a'+i/17576)), "power_watts", 1)
	}
	s := parse(metrics, false, anything)
	if len(s.points) != maxMetrics || len(s.violations) != 1 || !strings.Contains(s.violations[0].text, "20490 metrics") {
		t.Errorf("%d points, %v", len(s.points), s.violations)
	}
	metrics = metrics[:0]
	for i := range maxNames + 10 {
		metrics = append(metrics, gauge("d", "x"+strings.Repeat("y", i%30)+"_"+strings.Repeat("z", 1+i/30), 1))
	}
	s = parse(metrics, false, anything)
	if len(s.points) != maxNames || len(s.families) != maxNames || !strings.Contains(s.violations[0].text, "more than 512 names") {
		t.Errorf("%d points, %d names, %v", len(s.points), len(s.families), s.violations)
	}
}

// Verifies that labels which differ only in where one ends are not the same.
func TestLabelsAreApart(t *testing.T) {
	s := parse([]*backendv1.Metric{
		with(gauge("d", "x_ratio", 1), map[string]string{"a": "b1:cx"}),
		with(gauge("d", "x_ratio", 2), map[string]string{"a": "b", "c": "x"}),
		with(gauge("d", "x_ratio", 3), map[string]string{"a": "", "c": "x"}),
		gauge("d", "x_ratio", 4),
	}, false, anything)
	if len(s.points) != 4 {
		t.Errorf("%d points, %v", len(s.points), s.violations)
	}
}

// Verifies that a violation is in the status while it persists, and in the log once.
func TestViolationsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"b": wrong})
		r.Apply(every(ten, "b"))
		r.one()
		for range 20 {
			pass(ten)
			r.one()
		}
		if p := r.Problems(); len(p) != 1 || !strings.Contains(p[0].Message, "the value is NaN") {
			t.Errorf("problems %v", p)
		}
		if n := strings.Count(r.log.String(), "NaN"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log.String())
		}
	})
}
