package nvidia

import (
	"encoding/json"
	"errors"
	"log/slog"
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

// The schema accepts what the backend accepts, since the core checks it first. Both refuse
// what a schema can express, the backend with the field's path.
func TestSettingsAndSchemaAgree(t *testing.T) {
	refused := func(text, field string) {
		t.Helper()
		_, err := configure(json.RawMessage(text), sdk.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: t.TempDir()},
			func(string) string { return "" }, slog.New(slog.DiscardHandler))
		var errs sdk.FieldErrors
		if field == "" && err != nil || field != "" && (!errors.As(err, &errs) || !strings.HasPrefix(errs[0].Field, field)) {
			t.Errorf("%s: %v, want the field %q", text, err, field)
		}
	}
	schema := sdktest.Schema(t, settingsSchema)
	for text, field := range map[string]string{
		`{}`: "",
		`{"mig": {"strategy": "mixed"}, "rescan": "1m30s", "library": "/usr/lib64/libnvidia-ml.so.1"}`:                                                            "",
		`{"xid": {"table": {"79": "reboot"}, "rows": {"94": "application"}, "ignore": [109], "unknown": "replace"}}`:                                              "",
		`{"edits": {"mode": "runtime", "visibleDevices": "mounts", "gds": true, "mofed": true, "gdrcopy": true, "imex": {"channels": [0, 7], "required": true}}}`: "",
		`{"edits": {"driverRoot": "/", "driverRootMount": "/", "hook": "/usr/bin/nvidia-cdi-hook", "disabledHooks": ["enable-cuda-compat", "all"]}}`:              "",
		`{"mps": {"replicas": 2}}`: "",
		`{"mps": {"replicas": 2, "uuids": ["GPU-a"], "memory": 1073741824, "threads": "off", "program": "/opt/mps", "dir": "/p", "hostDir": "/p", "hostShmDir": "/s", "exclusive": false}}`: "",
		`{"mps": {}}`:              "mps.replicas",
		`{"mps": {"replicas": 1}}`: "mps.replicas",
		`{"mps": {"replicas": 2, "uuids": ["MIG-a"]}}`: "mps.uuids[0]",
		`{"mps": {"replicas": 2, "memory": "half"}}`:   "mps.memory",
		`{"mps": {"replicas": 2, "memory": 1000}}`:     "mps.memory",
		`{"mps": {"replicas": 2, "memory": 0}}`:        "mps.memory",
		`{"mps": {"replicas": 2, "threads": 101}}`:     "mps.threads",
		`{"mps": {"replicas": 2, "dir": "relative"}}`:  "mps.dir",
		`{"mig": {"strategi": "mixed"}}`:               "mig.strategi",
		`{"mig": {"strategy": "some"}}`:                "mig.strategy",
		`{"rescan": "soon"}`:                           "rescan",
		`{"library": "libnvidia-ml.so.1"}`:             "library",
		`{"xid": {"rows": {"fatal": "reset"}}}`:        "xid.rows.fatal",
		`{"xid": {"rows": {"79": "explode"}}}`:         "xid.rows",
		`{"edits": {"mode": "magic"}}`:                 "edits.mode",
		`{"edits": {"driverRoot": "relative"}}`:        "edits.driverRoot",
		`{"edits": {"disabledHooks": ["A B"]}}`:        "edits.disabledHooks[0]",
		`{"edits": {"imex": {"channels": [-1]}}}`:      "edits.imex.channels",
		`{"edits": {"gds": "yes"}}`:                    "edits.gds",
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		// For a bad key the schema does not report the position.
		want := field == "" || field == "xid.rows.fatal"
		if err := schema.Validate(value); (err == nil) != want {
			t.Errorf("the schema says %v of %s", err, text)
		}
		refused(text, field)
	}
	// What a schema cannot express, the backend refuses alone.
	for text, field := range map[string]string{
		`{"rescan": "1ms"}`: "rescan",
		`{"edits": {"driverRoot": "/no/such/directory"}}`:                      "edits.driverRoot",
		`{"prepare": {"leftovers": "kill"}}`:                                   "prepare.leftovers",
		`{"prepare": {"leftovers": "fail"}}`:                                   "prepare.leftovers", // not in the host's PID namespace
		`{"prepare": {"maxMemoryUsedMiB": -1}}`:                                "prepare.maxMemoryUsedMiB",
		`{"reset": {"method": "hammer"}}`:                                      "reset.method",
		`{"reset": {"tool": "nvidia-smi"}}`:                                    "reset.tool",
		`{"reset": {"tool": "/../bin/nvidia-sm"}}`:                             "reset.tool",
		`{"mps": {"replicas": 2, "uuids": ["GPU-a", "GPU-a"]}}`:                "mps.uuids[1]",
		`{"mps": {"replicas": 2, "dir": "/` + strings.Repeat("x", 107) + `"}}`: "mps.dir",
		`{"mps": {"replicas": 2, "hostShmDir": "/a/../b"}}`:                    "mps.hostShmDir",
	} {
		refused(text, field)
	}
}
