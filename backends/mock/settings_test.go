package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestDefaultDevice(t *testing.T) {
	cfg, err := parseSettings([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []*sdk.Device{{
		Id: "mock-0", Class: "gpu", Health: sdk.Healthy(),
		Attributes: map[string]*sdk.Attribute{
			"model": sdk.String("Mock M1"), "index": sdk.Int(0), "uuid": sdk.String("74986aaa-7880-8128-82a9-dcf60e3bd956"),
		},
		Edits: &sdk.Edits{
			Env:         map[string]string{"ACCELMUX_MOCK_0": "mock-0"},
			DeviceNodes: []*sdk.DeviceNode{{Path: "/dev/accelmux-mock/mock-0", HostPath: "/dev/null", Permissions: "rw"}},
		},
	}}
	if d := cmp.Diff(want, devicesOf(cfg), protocmp.Transform()); d != "" {
		t.Error(d)
	}
}

func devicesOf(cfg *config) []*sdk.Device {
	return newView(cfg, &player{scenario: &scenario{}}, playing{}).devices()
}

func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings string
		check    func([]*sdk.Device) any
		want     any
	}{
		"none":             {`{"count": 0}`, ids, []string{}},
		"IDs go on":        {`{"devices": [{"count": 2}, {"class": "fpga"}]}`, ids, []string{"mock-0", "mock-1", "mock-2"}},
		"empty list":       {`{"devices": []}`, ids, []string{}},
		"blocks of NUMA":   {`{"count": 5, "numaNodes": 2}`, numa, "[0] [0] [0] [1] [1]"},
		"list of NUMA":     {`{"count": 5, "numaNodes": [1, -1]}`, numa, "[1] [] [1] [] [1]"},
		"NUMA unknown":     {`{"count": 1, "numaNodes": 0}`, numa, "[]"},
		"all to all":       {`{"count": 3, "links": {"topology": "all-to-all"}}`, peers, "mock-1,mock-2 mock-0,mock-2 mock-0,mock-1"},
		"ring":             {`{"count": 4, "links": {"topology": "ring"}}`, peers, "mock-1,mock-3 mock-0,mock-2 mock-1,mock-3 mock-0,mock-2"},
		"ring of two":      {`{"count": 2, "links": {"topology": "ring"}}`, peers, "mock-1 mock-0"},
		"ring of one":      {`{"count": 1, "links": {"topology": "ring"}}`, peers, ""},
		"hives":            {`{"count": 5, "links": {"topology": "hive", "size": 2, "kind": "xgmi"}}`, peers, "mock-1 mock-0 mock-3 mock-2 "},
		"partitions":       {`{"count": 2, "memory": "8Gi", "partitions": {"count": 2}}`, ids, []string{"mock-0-p0", "mock-0-p1", "mock-1-p0", "mock-1-p1"}},
		"listed parent":    {`{"partitions": {"count": 1, "listParent": true}}`, ids, []string{"mock-0", "mock-0-p0"}},
		"template of IDs":  {`{"devices": [{"count": 1}, {"count": 2, "id": "Dev-{{.GroupIndex}}"}]}`, ids, []string{"mock-0", "Dev-0", "Dev-1"}},
		"memory":           {`{"memory": "16Gi"}`, func(d []*sdk.Device) any { return d[0].GetCapacities() }, map[string]int64{"memory": 16 << 30}},
		"memory in bytes":  {`{"memory": 1000}`, func(d []*sdk.Device) any { return d[0].GetCapacities() }, map[string]int64{"memory": 1000}},
		"partition memory": {`{"memory": "8Gi", "partitions": {"count": 2}}`, func(d []*sdk.Device) any { return d[0].GetCapacities() }, map[string]int64{"memory": 4 << 30}},
		"reset group": {`{"partitions": {"count": 2, "listParent": true}}`, func(d []*sdk.Device) any {
			return []string{d[0].GetResetGroup(), d[1].GetResetGroup(), d[1].GetParentId(), d[1].GetLinks()[0].GetPeerId(), d[1].GetLinks()[0].GetKind().String()}
		}, []string{"mock-0", "mock-0", "mock-0", "mock-0-p1", "LINK_KIND_SAME_DEVICE"}},
		"hooks": {`{"hooks": ["prepare", "release"]}`, func(d []*sdk.Device) any { return d[0].GetHooks() }, []backendv1.Hook{sdk.HookPrepare, sdk.HookRelease}},
		"mount": {`{"id": "Dev-{{.Number}}", "edits": {"mounts": [{"hostPath": "/tmp/{{.ID}}"}]}}`, func(d []*sdk.Device) any {
			m := d[0].GetEdits().GetMounts()[0]
			return []string{m.GetHostPath(), m.GetContainerPath()}
		}, []string{"/tmp/Dev-1", "/tmp/Dev-1"}},
		"holders": {`{"holders": 4, "partitions": {"count": 1, "listParent": true}}`, func(d []*sdk.Device) any {
			return []uint32{d[0].GetPreparedFor(), d[1].GetPreparedFor()}
		}, []uint32{4, 4}},
		"joined": {`{"edits": {"env": {"V_{{.EnvName}}": "{{.ID}}"}, "envSeparators": {"V_{{.EnvName}}": ";"}}}`, func(d []*sdk.Device) any {
			return d[0].GetEdits().GetEnvSeparators()
		}, map[string]string{"V_0": ";"}},
		"attributes": {`{"attributes": {"a": "s", "b": 1, "c": true, "d": {"version": "1.2.3"}, "model": "other"}}`, func(d []*sdk.Device) any {
			a := d[0].GetAttributes()
			return []string{a["a"].GetStringValue(), fmt.Sprint(a["b"].GetIntValue(), a["c"].GetBoolValue()), a["d"].GetVersionValue(), a["model"].GetStringValue()}
		}, []string{"s", "1 true", "1.2.3", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parseSettings([]byte(tc.settings))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, tc.check(devicesOf(cfg))); d != "" {
				t.Error(d)
			}
			validate(t, tc.settings, true)
		})
	}
}

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

func ids(devices []*sdk.Device) any {
	out := []string{}
	for _, d := range devices {
		out = append(out, d.GetId())
	}
	return out
}

func numa(devices []*sdk.Device) any {
	var out []string
	for _, d := range devices {
		out = append(out, fmt.Sprint(d.GetNumaNodes()))
	}
	return strings.Join(out, " ")
}

func peers(devices []*sdk.Device) any {
	var out []string
	for _, d := range devices {
		var p []string
		for _, l := range d.GetLinks() {
			p = append(p, l.GetPeerId())
		}
		out = append(out, strings.Join(p, ","))
	}
	return strings.Join(out, " ")
}

// Bad settings are refused with the field's path. Those that a schema can
// express are refused by the schema, too.
func TestBadSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings, field, message string
		bySchema                 bool
	}{
		"unknown field":     {`{"cuont": 1}`, "cuont", "unknown field", true},
		"both forms":        {`{"count": 1, "devices": []}`, "devices", "either", false},
		"count":             {`{"count": -1}`, "count", "out of range", true},
		"count too great":   {`{"count": 65537}`, "count", "out of range", true},
		"too many in all":   {`{"devices": [{"count": 4000}, {"count": 537, "id": "x-{{.Index}}"}]}`, "devices", "too many", false},
		"memory":            {`{"memory": "lots"}`, "memory", "whole number", true},
		"NUMA":              {`{"numaNodes": [-2]}`, "numaNodes", "no NUMA node", true},
		"NUMA type":         {`{"numaNodes": "two"}`, "numaNodes", "want", true},
		"topology":          {`{"links": {"topology": "star"}}`, "links.topology", "no topology", true},
		"hive without size": {`{"links": {"topology": "hive"}}`, "links.size", "2 devices", false},
		"link kind":         {`{"links": {"topology": "ring", "kind": "string"}}`, "links.kind", "no kind", false},
		"too many links":    {`{"count": 2000, "links": {"topology": "all-to-all"}}`, "links.topology", "too much", false},
		"partitions":        {`{"partitions": {"count": 65}}`, "partitions.count", "out of range", true},
		"same IDs":          {`{"count": 2, "id": "same"}`, "id", "two devices", false},
		"bad template":      {`{"id": "{{.Nope}}"}`, "id", "unknown placeholder", false},
		"hook":              {`{"hooks": ["prepair"]}`, "hooks[0]", "no hook", true},
		"delay":             {`{"prepare": {"delay": "2"}}`, "prepare.delay", "no duration", true},
		"reset":             {`{"reset": {"result": "maybe"}}`, "reset.result", "no result", true},
		"release edits":     {`{"release": {"edits": {}}}`, "release.edits", "unknown field", true},
		"attribute value":   {`{"attributes": {"a": 1.5}}`, "attributes.a", "want", true},
		"scenario file":     {`{"scenarioFile": "x.yaml"}`, "scenarioFile", "absolute", true},
		"change log":        {`{"changeLog": "x"}`, "changeLog", "absolute", true},
		"call log":          {`{"callLog": "x"}`, "callLog", "absolute", true},
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
