package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func load(t testing.TB, file string) *Manifest {
	t.Helper()
	m, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Verifies what references, conditions, defaults and presets come to with the manifests of the backends.
func TestRights(t *testing.T) {
	for name, tc := range map[string]struct {
		backend, settings string
		list              func(Rights) []string
		has, hasNot       []string
	}{
		"a default":      {"nvidia", `{}`, mounts, []string{"/usr/lib/**"}, nil},
		"a setting":      {"nvidia", `{"edits": {"driverRoot": "/run/nvidia/driver/"}}`, mounts, []string{"/run/nvidia/driver/usr/lib/**"}, []string{"/usr/lib/**"}},
		"no reset":       {"nvidia", `{"reset": {"method": "never"}}`, capabilities, nil, []string{"CAP_SYS_ADMIN"}},
		"resets":         {"nvidia", `{"reset": {"method": "nvml"}}`, capabilities, []string{"CAP_SYS_ADMIN"}, nil},
		"an object":      {"nvidia", `{"reset": {"method": "never"}, "timeSlicing": {}}`, capabilities, []string{"CAP_SYS_ADMIN"}, nil},
		"wildcards":      {"mock", `{"changeLog": "/tmp/a*/log"}`, writes, []string{`/tmp/a\*/**`}, nil},
		"words":          {"device", `{"kinds": [{"name": "a", "match": {"names": ["ttyUSB*"]}, "edits": {"nodes": [{"path": "/dev/{name}"}]}}]}`, devices, []string{"/dev/ttyUSB*"}, []string{"/dev/*"}},
		"a directory":    {"device", `{"kinds": [{"match": {"paths": ["/sys/devices/usb/*/*/ttyUSB*"]}, "edits": {"env": {"A": "1"}}}]}`, devices, nil, []string{"/sys/devices/usb/*/*/ttyUSB*"}},
		"no words":       {"device", `{"kinds": [{"name": "a", "match": {}, "edits": {"nodes": [{"path": "/dev/{name}"}]}}]}`, devices, nil, []string{"/dev/*"}},
		"of one kind":    {"device", `{"kinds": [{"match": {"names": ["a*"]}}, {"match": {"names": ["b*"]}, "edits": {"nodes": [{"path": "/dev/x/{name}"}]}}]}`, devices, []string{"/dev/x/b*"}, []string{"/dev/x/a*"}},
		"a preset":       {"device", `{"presets": ["sriov"]}`, environment, []string{"ACCELMUX_SRIOV", "PCIDEVICE_ACCELMUX_IO_SRIOV"}, nil},
		"a kind of one":  {"device", `{"kinds": [{"preset": "sriov", "edits": {"env": {"MY": "1"}}}]}`, environment, []string{"MY", "PCIDEVICE_ACCELMUX_IO_SRIOV"}, []string{"ACCELMUX_SRIOV"}},
		"a kind's links": {"device", `{"kinds": [{"match": {"paths": ["/dev/serial/by-id/x"]}}]}`, devices, []string{"/dev/ttyUSB*"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, "../../backends/"+tc.backend+"/manifest.yaml")
			merged, err := m.Merge(json.RawMessage(tc.settings))
			if err != nil {
				t.Fatal(err)
			}
			rights, err := m.Rights(merged)
			if err != nil {
				t.Fatal(err)
			}
			got := tc.list(rights)
			for _, entry := range tc.has {
				if !slices.Contains(got, entry) {
					t.Errorf("%q lacks %s", got, entry)
				}
			}
			for _, entry := range tc.hasNot {
				if slices.Contains(got, entry) {
					t.Errorf("%q has %s", got, entry)
				}
			}
		})
	}
}

func mounts(r Rights) []string       { return r.Containers.ReadOnlyMounts }
func devices(r Rights) []string      { return r.Containers.Devices }
func environment(r Rights) []string  { return r.Containers.Env }
func writes(r Rights) []string       { return r.Process.Write }
func capabilities(r Rights) []string { return r.Process.Capabilities }

// Verifies that settings that lead to what nobody gets, or to too much, are refused at their path.
func TestRefusedSettings(t *testing.T) {
	many := `{"kinds": [{"match": {"names": [` + strings.TrimSuffix(strings.Repeat(`"a","b",`, 64), ",") + `]}, "edits": {"nodes": [{"path": "/dev/x/{name}{name}"}]}}]}`
	for name, tc := range map[string]struct{ backend, settings, want string }{
		"the root":        {"mock", `{"changeLog": "/log"}`, `changeLog: "/**" in write stands for too much`},
		"kubelet's":       {"mock", `{"stateFile": "/var/lib/kubelet/x/y"}`, "stateFile: "},
		"another's root":  {"nvidia", `{"edits": {"driverRoot": "/proc/1/root"}}`, "may not be given to any backend"},
		"disks":           {"device", `{"kinds": [{"match": {"names": ["sd*"]}, "edits": {"nodes": [{"path": "/dev/{name}"}]}}]}`, "kinds[0].edits.nodes[0].path: "},
		"all interfaces":  {"device", `{"kinds": [{"edits": {"netDevices": [{"host": "*"}]}}]}`, "kinds[0].edits.netDevices[0].host: "},
		"a socket":        {"device", `{"kinds": [{"edits": {"mounts": [{"path": "/run/dbus/system_bus_socket"}]}}]}`, "kinds[0].edits.mounts[0].path: "},
		"the kernel's":    {"mock", `{"changeLog": "/proc/sys/kernel/x"}`, "changeLog: "},
		"a loader's":      {"device", `{"kinds": [{"edits": {"env": {"LD_PRELOAD": "x"}}}]}`, "kinds[0].edits.env.LD_PRELOAD: "},
		"a relative path": {"mock", `{"changeLog": "x/log"}`, "changeLog: "},
		"a bomb":          {"device", many, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "../../backends/"+tc.backend+"/manifest.yaml").Rights(json.RawMessage(tc.settings))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	m := load(t, "../../backends/device/manifest.yaml")
	if _, err := m.Merge(json.RawMessage(`{"kinds": [{"preset": "sriof"}]}`)); err == nil || !strings.Contains(err.Error(), `kinds[0].preset: there is no preset "sriof"; did you mean "sriov"?`) {
		t.Error(err)
	}
	if err := m.Check(t.Context(), json.RawMessage(`{"kindz": []}`)); err == nil || !strings.Contains(err.Error(), "kindz") {
		t.Error(err)
	}
}

// Verifies that a schema whose defaults grow without end, or are many, ends as an error.
func TestSchemaBombs(t *testing.T) {
	head := strings.SplitN(plain, "settings:", 2)[0]
	for name, text := range map[string]string{
		"a default in itself": head + `settings: {$ref: "#/$defs/a", $defs: {a: {properties: {x: {$ref: "#/$defs/a", default: {}}, y: {$ref: "#/$defs/a", default: {}}}}}}` + "\n",
		"a large default":     head + `settings: {properties: {a: {items: {properties: {x: {default: [` + strings.Repeat("1,", 1000) + `]}}}}}}` + "\n",
	} {
		m := load(t, write(t, text))
		if _, err := m.Rights(json.RawMessage(`{"a": [{}` + strings.Repeat(",{}", 1000) + `]}`)); err == nil || !strings.Contains(err.Error(), "the defaults of the schema make more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Verifies that what a setting asks for and only the configuration's allow gives is no right, and is reported at its path.
func TestUngiven(t *testing.T) {
	m := load(t, "../../backends/device/manifest.yaml")
	rights, err := m.Rights(json.RawMessage(`{"kinds": [
		{"match": {}, "edits": {"nodes": [{"path": "/dev/{name}"}, {"path": "/dev/y{name}"}]}},
		{"match": {"paths": ["/dev/loop0", "/dev/kvm"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/dev/kvm", "/dev/y*"}; !slices.Equal(rights.Containers.Devices, want) {
		t.Errorf("nodes %q, want %q", rights.Containers.Devices, want)
	}
	want := []FieldError{
		{"kinds[0].edits.nodes[0].path", `"/dev/*" names no device in particular: containers get what allow.devices has of it`},
		{"kinds[1].match.paths[0]", `"/dev/loop0" is a disk: containers get it only if allow.devices has exactly this path`},
	}
	if !slices.Equal(rights.Ungiven, want) {
		t.Errorf("left: %+v", rights.Ungiven)
	}
}

// Verifies that only what the settings that are there ask for is declared, each name once, in order.
func TestAttributes(t *testing.T) {
	names := func(m *Manifest, settings string) (all []string) {
		for _, d := range m.Attributes(json.RawMessage(settings)) {
			all = append(all, d.Name+":"+string(d.Kind))
		}
		return all
	}
	m := load(t, "../../backends/device/manifest.yaml")
	for settings, want := range map[string][]string{
		`{}`: {"kind:string", "countedID:bool"},
		`{"kinds": [{"count": 2, "attributes": {"b": "name", "a": "name"}, "capacities": {"b": "1"}}, {"attributes": {"a": "name", "not a name": "name"}}]}`: {
			"kind:string", "countedID:bool", "a:", "b:", "b:capacity", "shares:capacity",
		},
	} {
		if got := names(m, settings); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", settings, got, want)
		}
	}
	mock := load(t, "../../backends/mock/manifest.yaml")
	if got := names(mock, `{}`); slices.Contains(got, "*:") {
		t.Errorf("without a scenario: %q", got)
	}
	if got := names(mock, `{"scenarioFile": "/x/y"}`); !slices.Contains(got, "*:") {
		t.Errorf("with a scenario: %q", got)
	}
	priority := load(t, "../../backends/nvidia/manifest.yaml").Description.AttributePriority
	if !slices.Contains(priority, "memorySlice*") || slices.Contains(priority, "*") {
		t.Errorf("the order is %q", priority)
	}
}

// Verifies that a schema or a value whose check would not end is an error.
func TestCheckIsBounded(t *testing.T) {
	defs := ""
	for i := range 40 {
		defs += fmt.Sprintf(`d%d: {anyOf: [{$ref: "#/$defs/d%d"}, {$ref: "#/$defs/d%[2]d"}]}, `, i, i+1)
	}
	m := load(t, write(t, strings.SplitN(plain, "settings:", 2)[0]+`settings: {type: object, properties: {x: {$ref: "#/$defs/d0"}}, $defs: {`+defs+"d40: {type: string}}}\n"))
	if err := m.Check(t.Context(), json.RawMessage(`{"x": 1}`)); err == nil || !strings.Contains(err.Error(), "the schema evaluates more than") {
		t.Error(err)
	}
	if err := m.Check(t.Context(), json.RawMessage(`{}`)); err != nil {
		t.Error(err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(plain)
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := Load(write(t, text)); err == nil {
			_, _ = m.Rights(nil)
		}
	})
}

func FuzzRights(f *testing.F) {
	m := load(f, "../../backends/device/manifest.yaml")
	f.Add(`{"kinds": [{"match": {"names": ["a*"]}, "edits": {"nodes": [{"path": "/dev/{name}"}]}}]}`)
	f.Fuzz(func(_ *testing.T, settings string) {
		if merged, err := m.Merge(json.RawMessage(settings)); err == nil {
			_, _ = m.Rights(merged)
			_ = m.Attributes(merged)
		}
	})
}
