package manifest

import (
	"encoding/json"
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
		"a disk":          {"device", `{"kinds": [{"match": {"names": ["sd*"]}, "edits": {"nodes": [{"path": "/dev/{name}"}]}}]}`, "kinds[0].edits.nodes[0].path: "},
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
	if _, err := m.Merge(json.RawMessage(`{"kinds": [{"preset": "sriof"}]}`)); err == nil || !strings.Contains(err.Error(), `kinds[0].preset: "sriof" is no preset; did you mean`) {
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
