package mock

import (
	_ "embed" // the schemas
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/test/manifests"
)

//go:embed settings.schema.json
var settingsSchema string

//go:embed parameters.schema.json
var parametersSchema string

// Bad settings are refused with the field's path: by the schema, or else by the backend.
func TestBadSettings(t *testing.T) {
	check := manifests.Check(t, manifests.Load(t, "manifest.yaml"))
	for name, tc := range map[string]struct{ settings, field, message string }{
		"unknown field":       {`{"cuont": 1}`, "cuont", "unknown field"},
		"both forms":          {`{"count": 1, "devices": []}`, "devices", "either"},
		"count":               {`{"count": -1}`, "count", "must be a whole number from 0 to 4096, is "},
		"count too great":     {`{"count": 65537}`, "count", "must be a whole number from 0 to 4096, is "},
		"too many in all":     {`{"devices": [{"count": 4000}, {"count": 537, "id": "x-{{.Index}}"}]}`, "devices", "too many"},
		"memory":              {`{"memory": "lots"}`, "memory", "such as 512Mi or 16Gi"},
		"NUMA":                {`{"numaNodes": [-2]}`, "numaNodes[0]", "must be"},
		"NUMA type":           {`{"numaNodes": "two"}`, "numaNodes", "must be"},
		"topology":            {`{"links": {"topology": "star"}}`, "links.topology", "must be one of"},
		"hive without size":   {`{"links": {"topology": "hive"}}`, "links.size", "2 devices"},
		"link kind":           {`{"links": {"topology": "ring", "kind": "string"}}`, "links.kind", "no kind"},
		"too many links":      {`{"count": 2000, "links": {"topology": "all-to-all"}}`, "links.topology", "too much"},
		"partitions":          {`{"partitions": {"count": 65}}`, "partitions.count", "must be"},
		"same IDs":            {`{"count": 2, "id": "same"}`, "id", "two devices"},
		"bad template":        {`{"id": "{{.Nope}}"}`, "id", "unknown placeholder"},
		"hook":                {`{"hooks": ["prepair"]}`, "hooks[0]", "must be one of"},
		"delay":               {`{"prepare": {"delay": "2"}}`, "prepare.delay", "must be a duration"},
		"reset":               {`{"reset": {"result": "maybe"}}`, "reset.result", "must be one of"},
		"release edits":       {`{"release": {"edits": {}}}`, "release.edits", "unknown field"},
		"attribute value":     {`{"attributes": {"a": 1.5}}`, "attributes.a", "must be"},
		"share of nothing":    {`{"shares": {"bandwidth": "1G"}}`, "shares.bandwidth", "no such capacity"},
		"too great a share":   {`{"capacities": {"bandwidth": "1G"}, "partitions": {"count": 2}, "shares": {"bandwidth": "600M"}}`, "shares.bandwidth", "out of range: 1 to 500000000"},
		"half a share":        {`{"memory": 4, "shares": {"memory": {"step": 1}}}`, "shares.memory", "needs the field default"},
		"two bounds":          {`{"memory": 4, "shares": {"memory": {"default": 1, "values": [1], "step": 1}}}`, "shares.memory", "give values, or"},
		"shares made":         {`{"memory": 4, "shares": {"memory": 1}, "partitions": {"slices": 2, "profiles": {"a": 1}}}`, "shares", "partitions that claims make"},
		"parameter":           {`{"prepare": {"edits": {"env": {"A": "{{.Parameter.stategy}}"}}}}`, "prepare.edits", "unknown placeholder"},
		"early parameter":     {`{"edits": {"env": {"A": "{{.Parameter.strategy}}"}}}`, "edits", "unknown placeholder"},
		"parameter in a path": {`{"prepare": {"edits": {"mounts": [{"hostPath": "/{{.Parameter.interval}}/{{.Parameter.message}}"}]}}}`, "prepare.edits", "only values of env"},
		"scenario file":       {`{"scenarioFile": "x.yaml"}`, "scenarioFile", "absolute"},
		"change log":          {`{"changeLog": "x"}`, "changeLog", "absolute"},
		"call log":            {`{"callLog": "x"}`, "callLog", "absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(json.RawMessage(tc.settings))
			if err == nil {
				_, err = parseSettings([]byte(tc.settings))
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.field+": ") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("%v, want one error of field %q with %q", err, tc.field, tc.message)
			}
		})
	}
}

// The schema has the same fields as the Go types.
func TestSchemaIsComplete(t *testing.T) {
	sdktest.SameFields(t, parametersSchema, reflect.TypeFor[parameters]())
	var doc struct {
		Properties map[string]json.RawMessage
		Defs       map[string]struct {
			Properties map[string]json.RawMessage
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(settingsSchema), &doc); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		typ  reflect.Type
		have map[string]json.RawMessage
	}{
		"settings": {reflect.TypeFor[settings](), doc.Properties},
		"group":    {reflect.TypeFor[group](), doc.Defs["group"].Properties},
		"edits":    {reflect.TypeFor[edits](), doc.Defs["edits"].Properties},
	} {
		var want []string
		for i := range tc.typ.NumField() {
			if f := tc.typ.Field(i); !f.Anonymous {
				want = append(want, f.Tag.Get("json"))
			}
		}
		slices.Sort(want)
		if d := cmp.Diff(want, slices.Sorted(maps.Keys(tc.have))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
