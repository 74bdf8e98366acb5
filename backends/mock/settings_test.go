package mock

import (
	_ "embed" // the schemas
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
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
)

//go:embed settings.schema.json
var settingsSchema string

//go:embed parameters.schema.json
var parametersSchema string

func validate(t *testing.T, settings string, want bool) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(settings))
	if err != nil {
		t.Fatal(err)
	}
	if err := sdktest.Schema(t, settingsSchema).Validate(v); (err == nil) != want {
		t.Errorf("the schema says %v of %s", err, settings)
	}
}

// Bad settings are refused with the field's path. Those that a schema can
// express are refused by the schema, too.
func TestBadSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings, field, message string
		bySchema                 bool
	}{
		"unknown field":       {`{"cuont": 1}`, "cuont", "unknown field", true},
		"both forms":          {`{"count": 1, "devices": []}`, "devices", "either", false},
		"count":               {`{"count": -1}`, "count", "out of range", true},
		"count too great":     {`{"count": 65537}`, "count", "out of range", true},
		"too many in all":     {`{"devices": [{"count": 4000}, {"count": 537, "id": "x-{{.Index}}"}]}`, "devices", "too many", false},
		"memory":              {`{"memory": "lots"}`, "memory", "whole number", true},
		"NUMA":                {`{"numaNodes": [-2]}`, "numaNodes", "no NUMA node", true},
		"NUMA type":           {`{"numaNodes": "two"}`, "numaNodes", "want", true},
		"topology":            {`{"links": {"topology": "star"}}`, "links.topology", "no topology", true},
		"hive without size":   {`{"links": {"topology": "hive"}}`, "links.size", "2 devices", false},
		"link kind":           {`{"links": {"topology": "ring", "kind": "string"}}`, "links.kind", "no kind", false},
		"too many links":      {`{"count": 2000, "links": {"topology": "all-to-all"}}`, "links.topology", "too much", false},
		"partitions":          {`{"partitions": {"count": 65}}`, "partitions.count", "out of range", true},
		"same IDs":            {`{"count": 2, "id": "same"}`, "id", "two devices", false},
		"bad template":        {`{"id": "{{.Nope}}"}`, "id", "unknown placeholder", false},
		"hook":                {`{"hooks": ["prepair"]}`, "hooks[0]", "no hook", true},
		"delay":               {`{"prepare": {"delay": "2"}}`, "prepare.delay", "no duration", true},
		"reset":               {`{"reset": {"result": "maybe"}}`, "reset.result", "no result", true},
		"release edits":       {`{"release": {"edits": {}}}`, "release.edits", "unknown field", true},
		"attribute value":     {`{"attributes": {"a": 1.5}}`, "attributes.a", "want", true},
		"share of nothing":    {`{"shares": {"bandwidth": "1G"}}`, "shares.bandwidth", "no such capacity", false},
		"too great a share":   {`{"capacities": {"bandwidth": "1G"}, "partitions": {"count": 2}, "shares": {"bandwidth": "600M"}}`, "shares.bandwidth", "out of range: 1 to 500000000", false},
		"half a share":        {`{"memory": 4, "shares": {"memory": {"step": 1}}}`, "shares.memory", "out of range", true},
		"two bounds":          {`{"memory": 4, "shares": {"memory": {"default": 1, "values": [1], "step": 1}}}`, "shares.memory", "give values, or", false},
		"shares made":         {`{"memory": 4, "shares": {"memory": 1}, "partitions": {"slices": 2, "profiles": {"a": 1}}}`, "shares", "partitions that claims make", false},
		"parameter":           {`{"prepare": {"edits": {"env": {"A": "{{.Parameter.stategy}}"}}}}`, "prepare.edits", "unknown placeholder", false},
		"early parameter":     {`{"edits": {"env": {"A": "{{.Parameter.strategy}}"}}}`, "edits", "unknown placeholder", false},
		"parameter in a path": {`{"prepare": {"edits": {"mounts": [{"hostPath": "/{{.Parameter.interval}}/{{.Parameter.message}}"}]}}}`, "prepare.edits", "only values of env", false},
		"scenario file":       {`{"scenarioFile": "x.yaml"}`, "scenarioFile", "absolute", true},
		"change log":          {`{"changeLog": "x"}`, "changeLog", "absolute", true},
		"call log":            {`{"callLog": "x"}`, "callLog", "absolute", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseSettings([]byte(tc.settings))
			var errs sdk.FieldErrors
			if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Field != tc.field || !strings.Contains(errs[0].Message, tc.message) {
				t.Errorf("%v, want one error of field %q with %q", err, tc.field, tc.message)
			}
			if tc.bySchema {
				validate(t, tc.settings, false)
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
