package manifest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Verifies what kinds with presets, and presets alone, come to.
func TestMerge(t *testing.T) {
	const presets = `presets:
  npu: {class: npu, match: {class: accel, names: [a*]}, attributes: {model: name}, health: [{fault: dead}], edits: {nodes: [{path: /dev/npu}], env: {NPU: "1"}}, telemetry: {hwmon: true}}
  named: {name: other, class: nic}
`
	m := load(t, write(t, plain+presets))
	for name, tc := range map[string]struct{ settings, want string }{
		"nothing":             {``, `{}`},
		"no presets":          {`{"kinds": [{"name": "x", "class": "y"}], "dir": "/d"}`, `{"kinds": [{"name": "x", "class": "y"}], "dir": "/d"}`},
		"a preset":            {`{"presets": ["npu"]}`, `{"kinds": [` + npu(`"name": "npu"`) + `]}`},
		"one with a name":     {`{"presets": ["named"]}`, `{"kinds": [{"name": "other", "class": "nic"}]}`},
		"a kind of one":       {`{"kinds": [{"preset": "npu"}]}`, `{"kinds": [` + npu(`"name": "npu"`) + `]}`},
		"with a name":         {`{"kinds": [{"preset": "npu", "name": "mine"}]}`, `{"kinds": [` + npu(`"name": "mine"`) + `]}`},
		"null is not given":   {`{"kinds": [{"preset": "npu", "match": null, "edits": null}]}`, `{"kinds": [` + npu(`"name": "npu"`) + `]}`},
		"both":                {`{"presets": ["npu"], "kinds": [{"name": "npu", "class": "mine"}]}`, `{"kinds": [{"name": "npu", "class": "mine"}]}`},
		"both, of the preset": {`{"presets": ["npu"], "kinds": [{"preset": "npu", "class": "mine"}]}`, `{"kinds": [` + strings.Replace(npu(`"name": "npu"`), `"class": "npu"`, `"class": "mine"`, 1) + `]}`},
		"after the kinds":     {`{"presets": ["named"], "kinds": [{"name": "x"}]}`, `{"kinds": [{"name": "x"}, {"name": "other", "class": "nic"}]}`},
		"fields and members": {
			`{"kinds": [{"preset": "npu", "name": "n", "match": {"names": ["b"]}, "attributes": {"x": "1"}, "edits": {"env": {"A": "1"}}, "telemetry": {"values": []}}]}`,
			`{"kinds": [{"name": "n", "class": "npu", "match": {"names": ["b"]}, "attributes": {"x": "1"}, "health": [{"fault": "dead"}], "edits": {"nodes": [{"path": "/dev/npu"}], "env": {"A": "1"}}, "telemetry": {"hwmon": true, "values": []}}]}`,
		},
		"what the schema refuses": {`{"kinds": 1, "presets": "x"}`, `{"kinds": 1, "presets": "x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			merged, err := m.Merge(json.RawMessage(tc.settings))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decoded(t, tc.want), decoded(t, string(merged))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	_, err := m.Merge(json.RawMessage(`{"presets": ["npu", "nqu"], "kinds": [{}, {"preset": "namd"}]}`))
	if err == nil || !strings.Contains(err.Error(), `presets[1]: there is no preset "nqu"; did you mean "npu"?`) || !strings.Contains(err.Error(), `kinds[1].preset: there is no preset "namd"; did you mean "named"?`) {
		t.Error(err)
	}
}

func npu(name string) string {
	return `{` + name + `, "class": "npu", "match": {"class": "accel", "names": ["a*"]}, "attributes": {"model": "name"}, "health": [{"fault": "dead"}], "edits": {"nodes": [{"path": "/dev/npu"}], "env": {"NPU": "1"}}, "telemetry": {"hwmon": true}}`
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// Verifies that the sum is another one when anything of a manifest changes: its text, a schema, a preset, and the name of a
// preset.
func TestSum(t *testing.T) {
	file := write(t, strings.SplitN(plain, "settings:", 2)[0]+"settings: {file: s.json}\npresets: {dir: presets}\n")
	dir := filepath.Dir(file)
	if err := os.Mkdir(filepath.Join(dir, "presets"), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) func() error {
		return func() error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	seen := map[string]int{}
	for i, change := range []func() error{
		put("s.json", "{}"), put("presets/b.yaml", "class: gpu\n"), put("presets/c.yaml", "class: npu\n"), put("s.json", "{ }"), put("presets/c.yaml", "class: gpu\n"),
		func() error {
			return os.Rename(filepath.Join(dir, "presets/c.yaml"), filepath.Join(dir, "presets/d.yaml"))
		},
		put("manifest.yaml", strings.SplitN(plain, "settings:", 2)[0]+"settings: {file: s.json}\npresets: {dir: presets}\n# more\n"),
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue // there must be a preset
		}
		m := load(t, file)
		if before, ok := seen[m.Sum]; ok {
			t.Errorf("the sum after change %d is that after change %d: %s", i, before, m.Sum)
		}
		seen[m.Sum] = i
		if again := load(t, file); again.Sum != m.Sum {
			t.Errorf("change %d: two sums", i)
		}
	}
}
