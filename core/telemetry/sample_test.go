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

// Verifies for every rule that what breaks it is left out and told of, and that
// what comes before and after it is not.
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
		"empty name":         {gauge("d", "", 1), "a name is"},
		"upper case":         {gauge("d", "Power_watts", 1), "a name is"},
		"double underscore":  {gauge("d", "power__watts", 1), "a name is"},
		"digit first":        {gauge("d", "3d_ratio", 1), "a name is"},
		"line break":         {gauge("d", "x 1\naccelmux_ready", 1), "a name is"},
		"long name":          {gauge("d", strings.Repeat("x", 65), 1), "at most 64"},
		"the core's":         {gauge("d", "healthy", 1), "reserved for the core"},
		"histogram":          {gauge("d", "latency_bucket", 1), "_bucket"},
		"percent":            {gauge("d", "utilization_percent", 1), "use ratio"},
		"scaled counter":     {counter("d", "energy_millijoules_total", 1), "use joules"},
		"no kind":            {&backendv1.Metric{DeviceId: "d", Name: "x_ratio"}, "a gauge or a counter"},
		"unknown kind":       {&backendv1.Metric{DeviceId: "d", Name: "x_ratio", Kind: 9}, "a gauge or a counter"},
		"gauge in _total":    {gauge("d", "resets_total", 1), "end in _total"},
		"counter without":    {counter("d", "resets", 1), "end in _total"},
		"NaN":                {gauge("d", "x_ratio", math.NaN()), "NaN"},
		"infinite":           {gauge("d", "x_ratio", math.Inf(-1)), "Inf"},
		"negative counter":   {counter("d", "resets_total", -1), "negative"},
		"nine labels":        {with(gauge("d", "x_ratio", 1), labels(9)), "9 labels"},
		"our label":          {with(gauge("d", "x_ratio", 1), map[string]string{"pod": "x"}), "pod is reserved"},
		"label of monitors":  {with(gauge("d", "x_ratio", 1), map[string]string{"le": "1"}), "le is reserved"},
		"name of a label":    {with(gauge("d", "x_ratio", 1), map[string]string{"__name__": "x"}), "a name is"},
		"label's value":      {with(gauge("d", "x_ratio", 1), map[string]string{"a": "x\ny"}), "control characters"},
		"label's bytes":      {with(gauge("d", "x_ratio", 1), map[string]string{"a": "\xff"}), "not valid UTF-8"},
		"long label":         {with(gauge("d", "x_ratio", 1), map[string]string{"a": strings.Repeat("x", 129)}), "at most 128"},
		"twice":              {gauge("first", "power_watts", 2), "twice"},
		"foreign characters": {gauge("d", "\x1b[2J\xff", 1), `\x1b[2J\xff`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(nil, []*backendv1.Metric{gauge("first", "power_watts", 1), c.bad, counter("last", "resets_total", 3)}, anything)
			if len(s.points) != 2 || s.points[0].value != 1 || s.points[1].value != 3 {
				t.Errorf("kept %+v, want the first and the last", s.points)
			}
			if len(s.complaints) != 1 || !strings.Contains(s.complaints[0].text, c.want) {
				t.Errorf("complaints %v, want one with %q", s.complaints, c.want)
			}
		})
	}
	t.Run("eight labels", func(t *testing.T) {
		if s := parse(nil, []*backendv1.Metric{with(gauge("d", "x_ratio", 1), labels(8))}, anything); len(s.points) != 1 {
			t.Errorf("refused: %v", s.complaints)
		}
	})
}

// Verifies that a device that is not in the inventory is left out at once, but
// told of only when that lasts: it may have gone a moment before.
func TestStrangers(t *testing.T) {
	metrics := []*backendv1.Metric{gauge("no-1", "power_watts", 1), gauge("d", "power_watts", 2), gauge("no-1", "x_ratio", 1)}
	first := parse(nil, metrics, anything)
	second := parse(first, metrics, anything)
	if len(first.points) != 1 || len(first.complaints) != 0 {
		t.Errorf("the first time: %+v, %v", first.points, first.complaints)
	}
	if len(second.points) != 1 || len(second.complaints) != 1 || !strings.Contains(second.complaints[0].text, "(and 1 more)") {
		t.Errorf("the second time: %+v, %v", second.points, second.complaints)
	}
}

// Verifies that a sample is bounded, whatever is sent.
func TestBounds(t *testing.T) {
	metrics := make([]*backendv1.Metric, maxMetrics+10)
	for i := range metrics {
		metrics[i] = gauge("d"+strings.Repeat("x", i%60)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676%26))+string(rune('a'+i/17576)), "power_watts", 1)
	}
	s := parse(nil, metrics, anything)
	if len(s.points) != maxMetrics || len(s.complaints) != 1 || !strings.Contains(s.complaints[0].text, "65546 metrics") {
		t.Errorf("%d points, %v", len(s.points), s.complaints)
	}
	metrics = metrics[:0]
	for i := range maxNames + 10 {
		metrics = append(metrics, gauge("d", "x"+strings.Repeat("y", i%30)+"_"+strings.Repeat("z", 1+i/30), 1))
	}
	s = parse(nil, metrics, anything)
	if len(s.points) != maxNames || len(s.families) != maxNames || !strings.Contains(s.complaints[0].text, "more than 512 names") {
		t.Errorf("%d points, %d names, %v", len(s.points), len(s.families), s.complaints)
	}
	// What was, is not kept.
	s = parse(s, []*backendv1.Metric{gauge("e", "w_watts", 1)}, anything)
	if len(s.series) != 1 || len(s.families) != 1 || len(s.devices) != 1 {
		t.Errorf("kept %d series, %d names, %d devices", len(s.series), len(s.families), len(s.devices))
	}
}

// Verifies that a sample takes over the series of the one before, that it may have none
// of them twice, and that a device which goes and comes back is one that is new.
func TestSeriesAreTakenOver(t *testing.T) {
	metrics := full(3)
	perDevice := len(metrics) / 3
	first := parse(nil, metrics, anything)
	second := parse(first, append(metrics, gauge(metrics[0].GetDeviceId(), metrics[0].GetName(), 7)), anything)
	if len(second.points) != len(metrics) || len(second.complaints) != 1 || !strings.Contains(second.complaints[0].text, "twice") {
		t.Fatalf("%d points, %v", len(second.points), second.complaints)
	}
	for i, p := range second.points {
		if p != first.points[i] {
			t.Errorf("point %d is %+v, was %+v", i, p, first.points[i])
		}
	}
	third := parse(second, metrics[perDevice:], anything)
	if len(third.series) != 2*perDevice || len(second.points) != len(metrics) {
		t.Errorf("%d series without a device; and %d points of the sample before", len(third.series), len(second.points))
	}
	fourth := parse(third, metrics, anything)
	if len(fourth.series) != len(metrics) || len(fourth.points) != len(metrics) || len(fourth.complaints) != 0 {
		t.Errorf("%d series, %d points, %v with the device again", len(fourth.series), len(fourth.points), fourth.complaints)
	}
	if d := fourth.points[0].series.device; d == first.points[0].series.device || d != fourth.devices[d.id] {
		t.Error("the device that is back is the old one")
	}
}

// Verifies that labels which differ only in where one ends are not the same.
func TestLabelsAreApart(t *testing.T) {
	s := parse(nil, []*backendv1.Metric{
		with(gauge("d", "x_ratio", 1), map[string]string{"a": "b1:cx"}),
		with(gauge("d", "x_ratio", 2), map[string]string{"a": "b", "c": "x"}),
		with(gauge("d", "x_ratio", 3), map[string]string{"a": "", "c": "x"}),
		gauge("d", "x_ratio", 4),
	}, anything)
	if len(s.points) != 4 {
		t.Errorf("%d points, %v", len(s.points), s.complaints)
	}
}

// Verifies that what is wrong is in the status as long as it is, and in the log
// once.
func TestComplaintsAreToldOnce(t *testing.T) {
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
