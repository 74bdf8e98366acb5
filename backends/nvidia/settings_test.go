package nvidia

import (
	_ "embed" // the schemas
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/test/manifests"
)

//go:embed settings.schema.json
var settingsSchema string

//go:embed parameters.schema.json
var parametersSchema string

// The schema has the same fields as the Go types, and refuses what it can express.
func TestSettings(t *testing.T) {
	sdktest.SameFields(t, parametersSchema, reflect.TypeFor[parameters]())
	sdktest.Settings(t, settingsSchema, reflect.TypeFor[settings](), manifests.Check(t, manifests.Load(t, "manifest.yaml")), func(text json.RawMessage) error {
		_, err := configure(text, sdk.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: t.TempDir()},
			func(string) string { return "" }, slog.New(slog.DiscardHandler))
		return err
	}, map[string]string{
		`{"mig": {"strategy": "mixed"}, "rescan": "1m30s", "library": "/usr/lib64/libnvidia-ml.so.1"}`:                                                            "",
		`{"xid": {"table": {"79": "reboot"}, "rows": {"94": "application"}, "ignore": [109], "unknown": "replace"}}`:                                              "",
		`{"edits": {"mode": "runtime", "visibleDevices": "mounts", "gds": true, "mofed": true, "gdrcopy": true, "imex": {"channels": [0, 7], "required": true}}}`: "",
		`{"edits": {"driverRoot": "/", "driverRootMount": "/", "hook": "/usr/bin/nvidia-cdi-hook", "disabledHooks": ["enable-cuda-compat", "all"]}}`:              "",
		`{"mps": {"replicas": 2}}`: "",
		`{"mps": {"replicas": 2, "uuids": ["GPU-a"], "memory": 1073741824, "threads": "off", "dir": "/p", "hostDir": "/p", "hostShmDir": "/s", "exclusive": false}}`: "",
		`{"mps": {}}`:              "mps",
		`{"mps": {"replicas": 1}}`: "mps.replicas",
		`{"mps": {"replicas": 2, "uuids": ["MIG-a"]}}`:                         "mps.uuids[0]",
		`{"mps": {"replicas": 2, "memory": 1000}}`:                             "mps.memory",
		`{"mps": {"replicas": 2, "memory": 0}}`:                                "mps.memory",
		`{"mps": {"replicas": 2, "threads": 101}}`:                             "mps.threads",
		`{"mps": {"replicas": 2, "dir": "relative"}}`:                          "mps.dir",
		`{"mps": {"replicas": 2, "uuids": ["GPU-a", "GPU-a"]}}`:                "mps.uuids",
		`{"mps": {"replicas": 2, "dir": "/` + strings.Repeat("x", 107) + `"}}`: "mps.dir ",
		`{"mps": {"replicas": 2, "hostShmDir": "/a/../b"}}`:                    "mps.hostShmDir",
		`{"timeSlicing": {}}`:                                                  "",
		`{"timeSlicing": {"shares": 4, "stateFile": "/state/slices.json"}, "mps": {"replicas": 2, "uuids": ["GPU-a"]}}`: "",
		`{"timeSlicing": {}, "mps": {"replicas": 2}}`:                                                                   "timeSlicing ",
		`{"timeSlicing": {"shares": 101}}`:                                                                              "timeSlicing.shares",
		`{"timeSlicing": {"stateFile": "/a/../b"}}`:                                                                     "timeSlicing.stateFile",
		`{"timeSlicing": {"stateFile": "/f"}, "mig": {"strategy": "dynamic", "stateFile": "/f"}}`:                       "timeSlicing.stateFile ",
		`{"mig": {"strategy": "some"}}`:                                                                                 "mig.strategy",
		`{"rescan": "soon"}`:                                                                                            "rescan",
		`{"rescan": "1ms"}`:                                                                                             "rescan ",
		`{"library": "libnvidia-ml.so.1"}`:                                                                              "library",
		`{"xid": {"rows": {"fatal": "reset"}}}`:                                                                         "xid.rows.fatal ",
		`{"xid": {"rows": {"79": "explode"}}}`:                                                                          "xid.rows.79",
		`{"edits": {"mode": "magic"}}`:                                                                                  "edits.mode",
		`{"edits": {"driverRoot": "relative"}}`:                                                                         "edits.driverRoot",
		`{"edits": {"driverRoot": "/no/such/directory"}}`:                                                               "edits.driverRoot ",
		`{"edits": {"disabledHooks": ["A B"]}}`:                                                                         "edits.disabledHooks[0]",
		`{"edits": {"imex": {"channels": [-1]}}}`:                                                                       "edits.imex.channels[0]",
		`{"health": {"ignore": ["to-hot"]}}`:                                                                            "health.ignore[0]",
		`{"prepare": {"leftovers": "fail"}}`:                                                                            "prepare.leftovers ", // not in the host's PID namespace
		`{"prepare": {"maxMemoryUsedMiB": -1}}`:                                                                         "prepare.maxMemoryUsedMiB",
		`{"reset": {"method": "hammer"}}`:                                                                               "reset.method",
		`{"reset": {"tool": "nvidia-smi"}}`:                                                                             "reset.tool",
		`{"reset": {"tool": "/../bin/nvidia-sm"}}`:                                                                      "reset.tool",
	})
	for _, code := range gpu.Codes {
		if n := strings.Count(settingsSchema, `"`+code+`"`); n != 1 {
			t.Errorf("the schema has the code %s %d times", code, n)
		}
	}
	sdktest.Defaults(t, settingsSchema, map[string]string{
		"mig.stateFile": defaultStateFile, "timeSlicing.stateFile": defaultTimeSliceFile, "mps.dir": mps.DefaultDir,
	})
}
