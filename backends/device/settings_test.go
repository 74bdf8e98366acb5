package device

import (
	"bytes"
	_ "embed" // settings.schema.json
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/test/manifests"
)

//go:embed settings.schema.json
var settingsSchema string

// written are the settings as users write them: with presets, which the core merges.
type written struct {
	Presets []string `json:"presets"`
	Kinds   []struct {
		Preset string `json:"preset"`
		description.Kind
	} `json:"kinds"`
	settings
}

// The schema has the fields of the Go types and the names of the presets, which editors offer. It accepts the presets, whose
// classes are in the manifest.
func TestSchema(t *testing.T) {
	t.Parallel()
	sdktest.SameFields(t, settingsSchema, reflect.TypeFor[written]())
	sdktest.Defaults(t, settingsSchema, map[string]string{"stateDir": recordsDir})
	var doc struct {
		Defs struct {
			Preset, Class struct{ Enum []string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(settingsSchema), &doc); err != nil {
		t.Fatal(err)
	}
	names := presetNames(t)
	if !slices.Equal(doc.Defs.Preset.Enum, names) {
		t.Errorf("the schema has the presets %q, want %q", doc.Defs.Preset.Enum, names)
	}
	if classes := append(slices.Clone(names), description.OtherClass); !slices.Equal(doc.Defs.Class.Enum, classes) {
		t.Errorf("the schema has the classes %q, want %q", doc.Defs.Class.Enum, classes)
	}
	schema, m := sdktest.Schema(t, settingsSchema), manifests.Load(t, "manifest.yaml")
	for _, name := range names {
		settings := merged(t, `{"presets": ["`+name+`"]}`)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
		if err == nil {
			err = schema.Validate(doc)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cfg, err := configure(settings, sdk.HostPaths{})
		if err != nil {
			t.Fatal(err)
		}
		if k := cfg.kinds[0]; k.Name != name || k.Class == description.OtherClass || !slices.Contains(m.Description.Classes, k.Class) {
			t.Errorf("the preset %s is called %s and has the class %s, which must be in the manifest", name, k.Name, k.Class)
		}
	}
}

// Two wrong settings for each rule are refused, with the field and what would be right.
func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	check := manifests.Check(t, manifests.Load(t, "manifest.yaml"))
	for _, c := range []struct{ settings, want string }{
		{`{"presets": ["usb", "usb"]}`, `kinds[1].name: "usb" is there twice`},
		{`{"presets": ["kvm", "usb", "kvm"]}`, `kinds[2].name: "kvm" is there twice`},
		{`{"interval": "10ms"}`, "interval: 10ms must be between 1s and 1h0m0s"},
		{`{"interval": "2h"}`, "interval: 2h0m0s must be between"},
		{`{"edits": {"groups": "all"}}`, `edits.groups: must be one of auto, none, is "all"`},
		{`{"edits": {"groups": ""}}`, `edits.groups: must be one of auto, none, is ""`},
		{`{"interval": "5"}`, `interval: must be a duration such as 30s or 1m30s, is "5"`},
		{`{"kinds": [{"name": "a", "match": {"class": "x"}, "prepare": [{"bind": {"driver": "a/b"}}]}]}`, `kinds[0].prepare[0].bind.driver: must be letters, digits, _, . and -, such as link-down or vfio-pci, is "a/b"`},
		{`{"kinds": [{"name": "a", "match": {"class": "x"}, "reset": {"program": []}}]}`, `kinds[0].reset.program: must not be empty`},
		{`{"kinds": [{"name": "a", "match": {"class": "x"}, "health": [{"fault": "a", "event": "wedged"}]}]}`, `kinds[0].health[0].event: must be a property of a uevent, such as WEDGED or ERROR_EVENT=FAILED_RECOVERY, is "wedged"`},
		{`{"stateDir": "records"}`, `stateDir: must be an absolute path without //, . and .., and without / at its end, is "records"`},
		{`{"stateDir": "/var/lib/../x"}`, `stateDir: must be an absolute path without //, . and .., and without / at its end, is "/var/lib/../x"`},
		{`{"kinds": [{"name": "a"}]}`, "kinds[0]: needs preset, or name and match"},
		{`{"kinds": [{"name": "a", "match": {"class": "x"}}, {"name": "b", "match": {}}]}`, "kinds[1].match: it selects nothing"},
		{`{"interval": "30s", "kinds": [{"name": "a", "match": {"class": "x"}, "health": [{"fault": "f", "heartbeat": "b", "within": "20s"}]}]}`, "interval: 30s is more than the 20s in which the heartbeat b of the kind a must change"},
		{`{"interval": "10m", "kinds": [{"name": "a", "match": {"class": "x"}, "health": [{"fault": "f", "heartbeat": "b", "within": "9m"}]}]}`, "interval: 10m0s is more than the 9m0s in which the heartbeat b"},
		{`{"interval": "5m", "kinds": [{"name": "a", "match": {"class": "x"}, "health": [{"fault": "f", "heartbeat": "b"}]}]}`, "interval: 5m0s is more than the 1m0s in which"},
		{`{"interval": "61s", "presets": ["tenstorrent"]}`, "of the kind tenstorrent must change: give at most that"},
		{`{"kind": []}`, `kind: unknown field "kind"; did you mean "kinds"?`},
		{`{"kinds": {"name": "a"}}`, "kinds: must be a list, is a mapping"},
		{`{"kinds": [{"preset": "kvm", "Count": 1}]}`, `kinds[0].Count: unknown field "Count"; did you mean "count"?`},
		{`{"kinds": [{"preset": "kvm", "edits": {"node": []}}]}`, `kinds[0].edits.node: unknown field "node"; did you mean "nodes"?`},
		{`{"kinds": [{"preset": "intel-gpu", "match": {"where": "true"}}]}`, "kinds[0].match: it selects nothing"},
		{`{"kinds": [{"preset": "rdma", "match": {"names": ["mlx5_*"]}}]}`, "kinds[0].match: it selects nothing"},
		{`{"kinds": [{"preset": "kvm"}, {"preset": "kvm"}]}`, `kinds[1].name: "kvm" is there twice`},
		{`{"kinds": [{"name": "a", "match": {"class": "x"}}, {"preset": "tun", "name": "a"}]}`, `kinds[1].name: "a" is there twice`},
	} {
		err := check(json.RawMessage(c.settings))
		if err == nil {
			_, err = configure(merged(t, c.settings), sdk.HostPaths{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.settings, err, c.want)
		}
	}
}

// A kind with the name of a preset replaces it. The class is the one that is given, that of the preset, or other.
func TestReplaced(t *testing.T) {
	t.Parallel()
	cfg, err := configure(merged(t, `{"presets": ["kvm", "usb"], "kinds": [{"name": "kvm", "match": {"paths": ["/dev/kvm"]}}, {"name": "my-kvm", "class": "kvm", "match": {"paths": ["/dev/kvm"]}}, {"preset": "tun", "name": "my-tun"}]}`), sdk.HostPaths{})
	if err != nil || len(cfg.kinds) != 4 || cfg.kinds[0].Count != 0 {
		t.Fatalf("%v, %v", cfg, err)
	}
	for i, want := range []string{"kvm other", "my-kvm kvm", "my-tun tun", "usb " + "usb"} {
		if k := cfg.kinds[i]; k.Name+" "+k.Class != want {
			t.Errorf("%s %s, want %s", k.Name, k.Class, want)
		}
	}
}

// A kind that is built on a preset has the fields that are given, and the preset's others: match
// is replaced as a whole, edits and telemetry field by field.
func TestBuiltOnPreset(t *testing.T) {
	t.Parallel()
	cfg, err := configure(merged(t, `{"presets": ["intel-gpu"], "kinds": [
		{"preset": "intel-gpu", "match": null, "attributes": {"board": "pci.subsystemDevice"}, "edits": {"env": {"ACME": "1"}}, "health": [], "telemetry": {"hwmon": false}},
		{"preset": "rdma", "name": "lab", "match": {"class": "infiniband", "names": ["mlx5_*"]}, "count": 0}]}`), sdk.HostPaths{})
	if err != nil || len(cfg.kinds) != 2 {
		t.Fatalf("%v, %v", cfg, err)
	}
	var preset description.Kind
	if err := json.Unmarshal(manifests.Load(t, "manifest.yaml").Presets["intel-gpu"], &preset); err != nil {
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
