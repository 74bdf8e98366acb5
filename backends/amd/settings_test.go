package amd

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
)

// The schema has the same fields as the Go types, at every depth, and refuses
// others.
func TestSchemaIsComplete(t *testing.T) {
	sdktest.SameFields(t, settingsSchema, reflect.TypeFor[settings]())
}

// The schema, which the core checks before, accepts what the backend accepts; what a schema can
// express, both refuse, the backend with the field's path.
func TestSettingsAndSchemaAgree(t *testing.T) {
	schema := sdktest.Schema(t, settingsSchema)
	own := map[string]bool{"rescan ": true, "prepare.leftovers ": true, "health.interval ": true} // the schema cannot know
	for text, field := range map[string]string{
		`{}`: "",
		`{"partitions": {"strategy": "mixed"}, "rescan": "1m30s", "poll": "500ms", "reset": {"method": "driver"}}`:                                                                  "",
		`{"health": {"interval": "30s", "uncorrectable": 5, "badPages": 64, "xgmi": "report", "thermal": "fault", "events": false, "exporter": "/var/lib/amd-metrics-exporter/s"}}`: "",
		`{"prepare": {"check": true, "leftovers": "report"}, "edits": {"groups": "none"}}`:                                                                                          "",
		`{"integrated": "all"}`:                 "",
		`{"integrated": true}`:                  "integrated",
		`{"integrated": "video"}`:               "integrated",
		`{"partitions": {"strategy": "none"}}`:  "partitions.strategy",
		`{"partitions": {"strategi": "mixed"}}`: "partitions.strategi",
		`{"rescan": "soon"}`:                    "rescan",
		`{"rescan": "2h"}`:                      "rescan ",
		`{"poll": 5}`:                           "poll",
		`{"health": {"interval": "10ms"}}`:      "health.interval ",
		`{"health": {"uncorrectable": -1}}`:     "health.uncorrectable",
		`{"health": {"badPages": "many"}}`:      "health.badPages",
		`{"health": {"xgmi": "explode"}}`:       "health.xgmi",
		`{"health": {"thermal": ""}}`:           "health.thermal",
		`{"health": {"events": "yes"}}`:         "health.events",
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
