package fpga

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
)

// The schema has the same fields as the Go types, at every depth, and refuses others.
func TestSchemaIsComplete(t *testing.T) {
	sdktest.SameFields(t, settingsSchema, reflect.TypeFor[settings]())
	sdktest.SameFields(t, parametersSchema, reflect.TypeFor[parameters]())
}

// What the backend accepts, the schema does, since the core checks that before; what a
// schema can express, both refuse, the backend with the field's path.
func TestSettingsAndSchemaAgree(t *testing.T) {
	schema := sdktest.Schema(t, settingsSchema)
	// What the schema cannot know has a space behind it.
	for text, field := range map[string]string{
		`{}`: "",
		`{"mode": "region-devel", "management": true, "drivers": ["dfl", "manager"], "bitstreams": "/var/lib/bitstreams"}`: "",
		`{"health": {"interval": "1m", "sensors": "0s", "alarms": "report", "ignore": ["pcie0_errors"]}}`:                  "",
		`{"prepare": {"reset": true, "leftovers": "report"}, "edits": {"groups": "none"}}`:                                 "",
		`{"mode": "AF"}`:                                                   "mode",
		`{"modus": "af"}`:                                                  "modus",
		`{"management": "yes"}`:                                            "management",
		`{"drivers": []}`:                                                  "drivers",
		`{"drivers": ["dfl", "quartus"]}`:                                  "drivers[1]",
		`{"drivers": ["dfl", "dfl"]}`:                                      "drivers[1]",
		`{"bitstreams": "relative"}`:                                       "bitstreams",
		`{"bitstreams": "/a/../b"}`:                                        "bitstreams ",
		`{"prepare": {"reset": 1}}`:                                        "prepare.reset",
		`{"prepare": {"leftovers": "kill"}}`:                               "prepare.leftovers",
		`{"prepare": {"leftovers": "fail"}}`:                               "prepare.leftovers ",
		`{"health": {"interval": "10ms"}}`:                                 "health.interval ",
		`{"health": {"interval": "soon"}}`:                                 "health.interval",
		`{"health": {"sensors": "1s"}}`:                                    "health.sensors ",
		`{"health": {"alarms": "explode"}}`:                                "health.alarms",
		`{"health": {"ignore": [""]}}`:                                     "health.ignore[0]",
		`{"health": {"ignore": ["` + strings.Repeat("x", 65) + `"]}}`:      "health.ignore[0]",
		`{"health": {"ignore": [` + strings.Repeat(`"x",`, 64) + `"x"]}}`:  "health.ignore",
		`{"xrt": {"unit": "board"}}`:                                       "",
		`{"xrt": {"unit": "card"}}`:                                        "xrt.unit",
		`{"manager": {"firmware": "/host/firmware", "flags": 1}}`:          "",
		`{"xrt": {"root": "/host", "tool": "/opt/xilinx/xrt/bin/xbutil"}}`: "",
		`{"xrt": {"root": "host"}}`:                                        "xrt.root",
		`{"xrt": {"tool": "/opt/../xbutil"}}`:                              "xrt.tool ",
		`{"manager": {"firmware": "firmware"}}`:                            "manager.firmware",
		`{"manager": {"firmware": "/lib/../x"}}`:                           "manager.firmware ",
		`{"manager": {"flags": 512}}`:                                      "manager.flags",
		`{"edits": {"groups": "render"}}`:                                  "edits.groups",
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		fpgatest.OK(t, err)
		if err := schema.Validate(value); (err == nil) != (field == "" || strings.HasSuffix(field, " ")) {
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
