package amd

import (
	_ "embed" // settings.schema.json
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/test/manifests"
)

//go:embed settings.schema.json
var settingsSchema string

// The schema has the same fields as the Go types, and refuses what it can express.
func TestSettings(t *testing.T) {
	sdktest.Settings(t, settingsSchema, reflect.TypeFor[settings](), manifests.Check(t, manifests.Load(t, "manifest.yaml")), func(text json.RawMessage) error {
		_, err := configure(text, sdk.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: t.TempDir()})
		return err
	}, map[string]string{
		`{"partitions": {"strategy": "mixed"}, "rescan": "1m30s", "poll": "500ms", "reset": {"method": "driver"}}`:                                                                 "",
		`{"health": {"interval": "30s", "uncorrectable": 5, "badPages": 64, "xgmi": "report", "thermal": "fault", "events": true, "exporter": "/var/lib/amd-metrics-exporter/s"}}`: "",
		`{"prepare": {"check": true, "leftovers": "report"}, "edits": {"groups": "none"}, "integrated": "all"}`:                                                                    "",
		`{"partitions": {"strategy": "dynamic", "stateFile": "/var/lib/x"}, "health": {"events": false}}`:                                                                          "",
		`{"partitions": {"strategy": "dynamic"}, "health": {"events": true}}`:                                                                                                      "health.events ",
		`{"health": {"thermal": "fault"}}`:                              "health.thermal ",
		`{"health": {"stateFile": "/x/../y"}}`:                          "health.stateFile",
		`{"partitions": {"stateFile": "x"}}`:                            "partitions.stateFile",
		`{"integrated": "video"}`:                                       "integrated",
		`{"partitions": {"strategy": "none"}}`:                          "partitions.strategy",
		`{"partitions": {"strategi": "mixed"}}`:                         "partitions.strategi",
		`{"rescan": "soon"}`:                                            "rescan",
		`{"rescan": "2h"}`:                                              "rescan ",
		`{"poll": 5}`:                                                   "poll",
		`{"health": {"interval": "10ms"}}`:                              "health.interval ",
		`{"health": {"uncorrectable": -1}}`:                             "health.uncorrectable",
		`{"health": {"xgmi": "explode"}}`:                               "health.xgmi",
		`{"health": {"thermal": ""}}`:                                   "health.thermal",
		`{"health": {"exporter": "/` + strings.Repeat("x", 107) + `"}}`: "health.exporter",
		`{"health": {"exporter": "relative"}}`:                          "health.exporter",
		`{"edits": {"groups": "render"}}`:                               "edits.groups",
		`{"prepare": {"leftovers": "fail"}}`:                            "prepare.leftovers ",
		`{"reset": {"method": "hammer"}}`:                               "reset.method",
	})
	sdktest.Defaults(t, settingsSchema, map[string]string{"partitions.stateFile": defaultStateFile, "health.stateFile": defaultErrorsFile})
}
