package mock

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/sdk"
)

func parsed(t *testing.T, text string) *scenario {
	t.Helper()
	s, err := parseScenario([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBadScenarios(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":        {"devices: [", "yaml"},
		"twice":          {"hang: {}\nhang: {}", "already defined"},
		"two documents":  {"{}\n---\n{}", "more than one"},
		"odd keys":       {"devices: {1: {}}", "must be a string"},
		"unknown":        {"device: {}", "device: unknown field"},
		"unknown deep":   {"devices: {a: {falt: {}}}", "devices.a.falt: unknown field"},
		"pattern":        {`devices: {"[": {}}`, "neither a device ID nor a pattern"},
		"reach":          {"devices: {a: {fault: {reach: far}}}", `devices["a"].fault.reach: "far" is no reach`},
		"recovery":       {"devices: {a: {fault: {recovery: prayer}}}", `devices["a"].fault.recovery: "prayer" is no recovery`},
		"contradiction":  {"devices: {a: {fault: {}, recovered: true}}", "exclude each other"},
		"plug":           {"plug: [{count: 2, id: x}]", "plug[0].id"},
		"garbage":        {"garbage: {kinds: [rubbish]}", "garbage.kinds[0]"},
		"duration":       {"garbage: {for: 5}", "garbage.for: want a string"},
		"order of steps": {"steps: [{after: 2s}, {after: 1s}]", "steps[1].after"},
		"reset":          {"devices: {a: {reset: {result: x}}}", "reset.result"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseScenario([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error with %q", err, tc.want)
			}
		})
	}
}

// The view of a scenario, as an inventory, at different times.
func TestDevicesOfScenario(t *testing.T) {
	for name, tc := range map[string]struct {
		settings, scenario string
		after              time.Duration
		check              func([]*sdk.Device) any
		want               any
	}{
		"unplugged": {`{"count": 3}`, "devices: {mock-1: {unplugged: true}}", 0, ids, []string{"mock-0", "mock-2"}},
		"links to the unplugged go": {
			`{"count": 3, "links": {"topology": "ring"}}`, "devices: {mock-1: {unplugged: true}}", 0, peers, "mock-2 mock-0",
		},
		"links of the plugged": {
			`{"count": 2, "links": {"topology": "ring"}}`,
			"plug: [{count: 3, links: {topology: ring}}]\ndevices: {mock-plugged-1: {unplugged: true}}", 0, peers,
			"mock-1 mock-0 mock-plugged-2 mock-plugged-0",
		},
		"partitions go with their parent": {
			`{"count": 2, "partitions": {"count": 1, "listParent": true}}`, "devices: {mock-1: {unplugged: true}}", 0, ids, []string{"mock-0", "mock-0-p0"},
		},
		"plugged":            {`{}`, "plug: [{count: 2}]", 0, ids, []string{"mock-0", "mock-plugged-0", "mock-plugged-1"}},
		"before the step":    {`{}`, "steps: [{after: 2s, devices: {mock-0: {unplugged: true}}}]", 1999 * time.Millisecond, ids, []string{"mock-0"}},
		"after the step":     {`{}`, "steps: [{after: 2s, devices: {mock-0: {unplugged: true}}}]", 2 * time.Second, ids, []string{}},
		"step keeps others":  {`{"count": 3}`, "devices: {mock-0: {unplugged: true}}\nsteps: [{devices: {mock-1: {unplugged: true}}}]", 0, ids, []string{"mock-2"}},
		"step makes normal":  {`{"count": 1}`, "devices: {mock-0: {unplugged: true}}\nsteps: [{devices: {mock-0: {}}}]", 0, ids, []string{"mock-0"}},
		"health":             {`{"count": 3}`, "devices: {mock-0: {fault: {}}, mock-1: {recovered: true}}", 0, health, "unhealthy mock-fault self|healthy recovered|healthy"},
		"fault of all":       {`{"count": 2}`, "devices: {'*': {fault: {code: c, recovery: reboot}}}", 0, health, "unhealthy c reboot|unhealthy c reboot"},
		"reach":              {`{}`, "devices: {mock-0: {fault: {reach: holders}}}", 0, func(d []*sdk.Device) any { return d[0].GetHealth().GetReach() }, sdk.ReachHolders},
		"attribute":          {`{}`, "devices: {mock-0: {attributes: {driver: '2'}}}", 0, func(d []*sdk.Device) any { return d[0].GetAttributes()["driver"].GetStringValue() }, "2"},
		"garbage":            {`{}`, "garbage: {kinds: [duplicate-ids, control-characters]}", 0, ids, []string{"mock-0", "mock-0", "mock\x1b[31m\nred\x00"}},
		"garbage of no time": {`{}`, "garbage: {kinds: [duplicate-ids], for: 1s}", time.Second, ids, []string{"mock-0"}},
		"too many":           {`{}`, "garbage: {kinds: [too-many-devices]}", 0, func(d []*sdk.Device) any { return len(d) > maxDevices }, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parseSettings([]byte(tc.settings))
			if err != nil {
				t.Fatal(err)
			}
			var p player
			start := time.Now()
			p.load(parsed(t, tc.scenario), false, start)
			v := newView(cfg, &p, p.at(start.Add(tc.after)))
			if d := cmp.Diff(tc.want, tc.check(v.devices())); d != "" {
				t.Error(d)
			}
		})
	}
}

func health(devices []*sdk.Device) any {
	var out []string
	for _, d := range devices {
		h := d.GetHealth()
		text := strings.TrimPrefix(h.GetState().String(), "HEALTH_STATE_")
		if h.GetCode() != "" {
			text += " " + h.GetCode() + " " + strings.TrimPrefix(h.GetRecovery().String(), "RECOVERY_")
		}
		if h.GetRecovered() {
			text += " recovered"
		}
		out = append(out, text)
	}
	return strings.ReplaceAll(strings.ToLower(strings.Join(out, "|")), "  ", " ")
}

// An action happens once in a process, and not in the next one, unless it repeats.
func TestActions(t *testing.T) {
	type load struct {
		text string
		old  bool
		at   time.Duration // since the first load
		want string        // the action then
	}
	for name, loads := range map[string][]load{
		"at once":                    {{"crash: {}", false, 0, "crash"}},
		"file of the process before": {{"crash: {}", true, 0, ""}, {"", false, time.Second, ""}, {"crash: {}", false, 2 * time.Second, "crash"}},
		"another ID":                 {{"crash: {id: 1}", true, 0, ""}, {"crash: {id: 2}", false, time.Second, "crash"}},
		"same ID in another file":    {{"crash: {id: 1}", true, 0, ""}, {"crash: {id: 1}\nproblems: [x]", false, time.Second, ""}},
		"repeat":                     {{"crash: {repeat: true}", true, 0, "crash"}},
		"hang goes on":               {{"hang: {}", false, 0, "hang"}, {"hang: {}\nproblems: [x]", false, time.Hour, "hang"}},
		"hang ends with the file":    {{"hang: {}", false, 0, "hang"}, {"", false, time.Second, ""}},
		"garbage and hang":           {{"garbage: {}\nhang: {}", false, 0, "hang garbage"}},
	} {
		t.Run(name, func(t *testing.T) {
			var p player
			start := time.Now()
			for i, l := range loads {
				p.load(parsed(t, l.text), l.old, start.Add(l.at))
				v := p.at(start.Add(l.at))
				var got []string
				for _, a := range []struct {
					name string
					on   bool
				}{{"crash", v.crash}, {"hang", v.hang}, {"garbage", v.garbage}} {
					if a.on {
						got = append(got, a.name)
					}
				}
				if g := strings.Join(got, " "); g != l.want {
					t.Errorf("load %d: %q, want %q", i, g, l.want)
				}
			}
		})
	}
}
