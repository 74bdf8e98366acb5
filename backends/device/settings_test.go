package device

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/presets"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
)

// The schema that is described names the presets, which `accelmux discover` tries.
func TestPresetsInSchema(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Presets struct {
				Items struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal([]byte(New().Describe().SettingsSchema), &schema); err != nil {
		t.Fatal(err)
	}
	if got := schema.Properties.Presets.Items.Enum; !slices.Equal(got, presets.Names()) {
		t.Errorf("%q, want %q", got, presets.Names())
	}
}

// The schema has the fields of the Go types, and accepts the presets.
func TestSchema(t *testing.T) {
	t.Parallel()
	sdktest.SameFields(t, settingsSchema, reflect.TypeFor[settings]())
	var doc struct {
		Properties struct {
			Kinds struct{ Items json.RawMessage }
		}
	}
	if err := json.Unmarshal([]byte(settingsSchema), &doc); err != nil {
		t.Fatal(err)
	}
	type fields kind // it decodes itself
	sdktest.SameFields(t, string(doc.Properties.Kinds.Items), reflect.TypeFor[fields]())
	schema := sdktest.Schema(t, settingsSchema)
	for _, name := range presets.Names() {
		k, err := presets.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if k.Name != name {
			t.Errorf("the preset %s is called %s", name, k.Name)
		}
		text, err := presets.JSON(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"kinds": [` + string(text) + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two wrong settings for each rule are refused, with the field and what would be right.
func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ settings, want string }{
		{`{"presets": ["kvn"]}`, `presets[0]: "kvn" is no preset: there are `},
		{`{"presets": ["usb", ""]}`, `presets[1]: "" is no preset`},
		{`{"presets": ["usb", "usb"]}`, `presets[1]: "usb" is there twice`},
		{`{"presets": ["kvm", "usb", "kvm"]}`, `presets[2]: "kvm" is there twice`},
		{`{"interval": "10ms"}`, "interval: 10ms must be between 1s and 1h0m0s"},
		{`{"interval": "2h"}`, "interval: 2h0m0s must be between"},
		{`{"edits": {"groups": "all"}}`, `edits.groups: "all" is none: auto or none`},
		{`{"edits": {"groups": ""}}`, `edits.groups: "" is none`},
		{`{"stateDir": "records"}`, `stateDir: "records" must be an absolute path`},
		{`{"stateDir": "/var/lib/../x"}`, `stateDir: "/var/lib/../x" must be an absolute path`},
		{`{"kinds": [{"name": "a"}]}`, "kinds[0].match: it selects nothing"},
		{`{"kinds": [{"name": "a", "match": {"class": "x"}}, {"name": "b", "match": {}}]}`, "kinds[1].match: it selects nothing"},
		{`{"interval": "30s", "kinds": [{"name": "a", "match": {"class": "x"}, "health": [{"fault": "f", "heartbeat": "b", "within": "20s"}]}]}`, "kinds[0].health[0].within: 20s is less than interval, 30s"},
		{`{"interval": "10m", "kinds": [{"name": "a", "match": {"class": "x"}, "health": [{"fault": "f", "heartbeat": "b", "within": "9m"}]}]}`, "within: 9m0s is less than interval, 10m0s"},
		{`{"interval": "5m", "kinds": [{"name": "a", "match": {"class": "x"}, "health": [{"fault": "f", "heartbeat": "b"}]}]}`, "kinds[0].health[0].within: 1m0s, the default, is less than interval, 5m0s"},
		{`{"interval": "61s", "presets": ["tenstorrent"]}`, "interval: 1m1s is more than the 1m0s in which the heartbeat of the preset tenstorrent must change"},
		{`{"kind": []}`, "kind: unknown field; there are: edits, interval, kinds, presets, stateDir"},
		{`{"kinds": {"name": "a"}}`, "kinds: want a list"},
		{`{"kinds": [{"preset": "kvn"}]}`, `kinds[0].preset: "kvn" is no preset: there are `},
		{`{"kinds": [{"preset": "kvm"}, {"preset": "Kvm", "name": "a"}]}`, `kinds[1].preset: "Kvm" is no preset`},
		{`{"kinds": [{"preset": ["kvm"]}]}`, "kinds[0].preset: want a string"},
		{`{"kinds": [{"preset": "kvm", "preset": "tun"}]}`, "kinds[0].preset: given twice"},
		{`{"kinds": [{"preset": "kvm", "Count": 1}]}`, "kinds[0].Count: unknown field"},
		{`{"kinds": [{"preset": "kvm", "edits": {"node": []}}]}`, "kinds[0].edits.node: unknown field"},
		{`{"kinds": [{"preset": "intel-gpu", "match": {"where": "true"}}]}`, "kinds[0].match: it selects nothing"},
		{`{"kinds": [{"preset": "rdma", "match": {"names": ["mlx5_*"]}}]}`, "kinds[0].match: it selects nothing"},
		{`{"kinds": [{"preset": "kvm"}, {"preset": "kvm"}]}`, `kinds[1].name: "kvm" is there twice`},
		{`{"kinds": [{"name": "a", "match": {"class": "x"}}, {"preset": "tun", "name": "a"}]}`, `kinds[1].name: "a" is there twice`},
	} {
		if _, err := configure(json.RawMessage(c.settings), sdk.HostPaths{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.settings, err, c.want)
		}
	}
}

// A kind with the name of a preset replaces it. The class is the one that is given, that of the preset, or other.
func TestReplaced(t *testing.T) {
	t.Parallel()
	cfg, err := configure(json.RawMessage(`{"presets": ["kvm", "usb"], "kinds": [{"name": "kvm", "match": {"paths": ["/dev/kvm"]}}, {"name": "my-kvm", "class": "kvm", "match": {"paths": ["/dev/kvm"]}}, {"preset": "tun", "name": "my-tun"}]}`), sdk.HostPaths{})
	if err != nil || len(cfg.kinds) != 4 || cfg.kinds[0].Count != 0 {
		t.Fatalf("%v, %v", cfg, err)
	}
	for i, want := range []string{"kvm other", "my-kvm kvm", "my-tun tun", "usb usb"} {
		if k := cfg.kinds[i]; k.Name+" "+k.Class != want {
			t.Errorf("%s %s, want %s", k.Name, k.Class, want)
		}
	}
}

// A kind that is built on a preset has the fields that are given, and the preset's others: match
// is replaced as a whole, edits and telemetry field by field.
func TestBuiltOnPreset(t *testing.T) {
	t.Parallel()
	cfg, err := configure(json.RawMessage(`{"presets": ["intel-gpu"], "kinds": [
		{"preset": "intel-gpu", "match": null, "attributes": {"board": "pci.subsystemDevice"}, "edits": {"env": {"ACME": "1"}}, "health": [], "telemetry": {"hwmon": false}},
		{"preset": "rdma", "name": "lab", "match": {"class": "infiniband", "names": ["mlx5_*"]}, "count": 0}]}`), sdk.HostPaths{})
	if err != nil || len(cfg.kinds) != 2 {
		t.Fatalf("%v, %v", cfg, err)
	}
	preset, err := presets.Get("intel-gpu")
	if err != nil {
		t.Fatal(err)
	}
	want := preset
	want.Attributes, want.Health = map[string]string{"board": "pci.subsystemDevice"}, []description.Health{}
	want.Edits.Env, want.Telemetry.Hwmon = map[string]string{"ACME": "1"}, false
	if got := cfg.kinds[0].Kind; !reflect.DeepEqual(got, want) || reflect.DeepEqual(got, preset) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if k := cfg.kinds[1]; k.Name != "lab" || k.Count != 0 || k.Match.Where != "" || len(k.Nodes) != 3 {
		t.Errorf("%+v", k.Kind)
	}
}
