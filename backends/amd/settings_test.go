package amd

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/accelmux/accelmux/backends/sdk"
)

// The schema has the same fields as the Go types, at every depth, and refuses
// others.
func TestSchemaIsComplete(t *testing.T) {
	var doc any
	if err := json.Unmarshal([]byte(settingsSchema), &doc); err != nil {
		t.Fatal(err)
	}
	sameFields(t, "settings", reflect.TypeFor[settings](), doc)
}

func sameFields(t *testing.T, at string, typ reflect.Type, schema any) {
	t.Helper()
	object, _ := schema.(map[string]any)
	have, _ := object["properties"].(map[string]any)
	var want []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := f.Tag.Get("json")
		want = append(want, name)
		if f.Type.Kind() == reflect.Struct {
			sameFields(t, at+"."+name, f.Type, have[name])
		}
	}
	slices.Sort(want)
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(have))); d != "" {
		t.Errorf("%s (-Go +schema):\n%s", at, d)
	}
	if object["additionalProperties"] != false {
		t.Errorf("%s: other fields are allowed", at)
	}
}

// What the backend accepts, the schema does, since the core checks that before; what
// a schema can express, both refuse, the backend with the field's path.
func TestSettingsAndSchemaAgree(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(settingsSchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("settings.json", doc); err != nil {
		t.Fatal(err)
	}
	schema := compiler.MustCompile("settings.json")
	own := map[string]bool{"rescan ": true, "prepare.leftovers ": true, "health.interval ": true} // the schema cannot know
	for text, field := range map[string]string{
		`{}`: "",
		`{"partitions": {"strategy": "mixed"}, "rescan": "1m30s", "poll": "500ms", "reset": {"method": "driver"}}`:                                                                  "",
		`{"health": {"interval": "30s", "uncorrectable": 5, "badPages": 64, "xgmi": "report", "thermal": "fault", "events": false, "exporter": "/var/lib/amd-metrics-exporter/s"}}`: "",
		`{"prepare": {"check": true, "leftovers": "report"}, "edits": {"groups": "none"}}`:                                                                                          "",
		`{"partitions": {"strategy": "none"}}`:                                "partitions.strategy",
		`{"partitions": {"strategi": "mixed"}}`:                               "partitions.strategi",
		`{"rescan": "soon"}`:                                                  "rescan",
		`{"rescan": "2h"}`:                                                    "rescan ",
		`{"poll": 5}`:                                                         "poll",
		`{"health": {"interval": "10ms"}}`:                                    "health.interval ",
		`{"health": {"uncorrectable": -1}}`:                                   "health.uncorrectable",
		`{"health": {"badPages": "many"}}`:                                    "health.badPages",
		`{"health": {"xgmi": "explode"}}`:                                     "health.xgmi",
		`{"health": {"thermal": ""}}`:                                         "health.thermal",
		`{"health": {"events": "yes"}}`:                                       "health.events",
		`{"health": {"exporter": "/` + strings.Repeat("x", maxSocket) + `"}}`: "health.exporter",
		`{"health": {"exporter": "relative"}}`:                                "health.exporter",
		`{"edits": {"groups": "render"}}`:                                     "edits.groups",
		`{"prepare": {"leftovers": "kill"}}`:                                  "prepare.leftovers",
		`{"prepare": {"leftovers": "fail"}}`:                                  "prepare.leftovers ",
		`{"reset": {"method": "hammer"}}`:                                     "reset.method",
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != (field == "" || own[field]) {
			t.Errorf("the schema says %v of %s", err, text)
		}
		_, err = configure(json.RawMessage(text), sdk.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: t.TempDir()})
		var errs sdk.FieldErrors
		want := strings.TrimSpace(field)
		if want == "" && err != nil || want != "" && (!errors.As(err, &errs) || errs[0].Field != want) {
			t.Errorf("%s: %v, want the field %q", text, err, want)
		}
	}
}
