package fpga

import (
	_ "embed" // the schemas
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/manager"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/test/manifests"
)

//go:embed settings.schema.json
var settingsSchema string

//go:embed parameters.schema.json
var parametersSchema string

// The schemas have the same fields as the Go types and refuse what they can express.
func TestSettings(t *testing.T) {
	sdktest.SameFields(t, parametersSchema, reflect.TypeFor[parameters]())
	sdktest.Settings(t, settingsSchema, reflect.TypeFor[settings](), manifests.Check(t, manifests.Load(t, "manifest.yaml")), func(text json.RawMessage) error {
		_, err := configure(text, sdk.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: t.TempDir()})
		return err
	}, map[string]string{
		`{"mode": "region-devel", "management": true, "drivers": ["dfl", "manager"], "bitstreams": "/var/lib/bitstreams"}`: "",
		`{"mode": "AF"}`:                                                  "mode",
		`{"modus": "af"}`:                                                 "modus",
		`{"drivers": []}`:                                                 "drivers",
		`{"drivers": ["dfl", "quartus"]}`:                                 "drivers[1]",
		`{"drivers": ["dfl", "dfl"]}`:                                     "drivers",
		`{"bitstreams": "relative"}`:                                      "bitstreams",
		`{"bitstreams": "/a/../b"}`:                                       "bitstreams",
		`{"prepare": {"leftovers": "kill"}}`:                              "prepare.leftovers",
		`{"prepare": {"leftovers": "fail"}}`:                              "prepare.leftovers ",
		`{"health": {"interval": "10ms"}}`:                                "health.interval ",
		`{"health": {"sensors": "1s"}}`:                                   "health.sensors ",
		`{"health": {"alarms": "explode"}}`:                               "health.alarms",
		`{"health": {"ignore": [""]}}`:                                    "health.ignore[0]",
		`{"health": {"ignore": ["` + strings.Repeat("x", 65) + `"]}}`:     "health.ignore[0]",
		`{"health": {"ignore": [` + strings.Repeat(`"x",`, 64) + `"x"]}}`: "health.ignore",
		`{"xrt": {"unit": "card"}}`:                                       "xrt.unit",
		`{"xrt": {"root": "host"}}`:                                       "xrt.root",
		`{"xrt": {"tool": "/opt/../xbutil"}}`:                             "xrt.tool",
		`{"manager": {"firmware": "/lib/../x"}}`:                          "manager.firmware",
		`{"manager": {"flags": 512}}`:                                     "manager.flags",
		`{"edits": {"groups": "render"}}`:                                 "edits.groups",
	})
	sdktest.Defaults(t, settingsSchema, map[string]string{"stateFile": defaultStateFile, "manager.firmware": manager.Defaults().Firmware})
}
