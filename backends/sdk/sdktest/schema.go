package sdktest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema compiles the schema of a backend's settings.
func Schema(tb testing.TB, schema string) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		tb.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("settings.json", doc); err != nil {
		tb.Fatal(err)
	}
	return compiler.MustCompile("settings.json")
}

// Settings verifies that a schema has the fields of the Go type of the settings, and what is refused: each text is accepted
// by the schema, which check evaluates, and by the backend, or is refused with its field by the schema. What only the backend
// can refuse has a space behind the field.
func Settings(tb testing.TB, schema string, settings reflect.Type, check, configure func(json.RawMessage) error, texts map[string]string) {
	tb.Helper()
	SameFields(tb, schema, settings)
	refuses := func(by string, err error, text, field string) {
		// The text of field errors begins with the first field.
		if (err != nil) != (field != "") || err != nil && !strings.HasPrefix(err.Error(), field+": ") {
			tb.Errorf("%s, of %s: %v, want the field %q", by, text, err, field)
		}
	}
	for text, field := range texts {
		own, isOwn := strings.CutSuffix(field, " ")
		if isOwn {
			field = ""
		}
		refuses("the schema", check(json.RawMessage(text)), text, field)
		if field == "" {
			refuses("the backend", configure(json.RawMessage(text)), text, own)
		}
	}
}

// Defaults verifies that a schema has these defaults of settings, by their paths: the manifest's rights are for the files
// that the schema has, so the backend must use no others.
func Defaults(tb testing.TB, schema string, want map[string]string) {
	tb.Helper()
	for at, want := range want {
		var doc any
		if err := json.Unmarshal([]byte(schema), &doc); err != nil {
			tb.Fatal(err)
		}
		for _, name := range strings.Split(at, ".") {
			object, _ := doc.(map[string]any)
			properties, _ := object["properties"].(map[string]any)
			doc = properties[name]
		}
		if setting, _ := doc.(map[string]any); setting["default"] != want {
			tb.Errorf("the default of %s is %q, and %v in the schema", at, want, setting["default"])
		}
	}
}

// SameFields verifies that a schema has the same fields as the Go type of the settings, at every
// depth, and refuses other fields.
func SameFields(tb testing.TB, schema string, settings reflect.Type) {
	tb.Helper()
	var doc any
	if err := json.Unmarshal([]byte(schema), &doc); err != nil {
		tb.Fatal(err)
	}
	sameFields(tb, "settings", settings, doc)
}

func sameFields(tb testing.TB, at string, typ reflect.Type, schema any) {
	tb.Helper()
	object, _ := schema.(map[string]any)
	have, _ := object["properties"].(map[string]any)
	var want []string
	for _, f := range reflect.VisibleFields(typ) {
		name := f.Tag.Get("json")
		if f.Anonymous && name == "" {
			continue // its fields are visible
		}
		want = append(want, name)
		inner, below := f.Type, have[name]
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			elements, _ := below.(map[string]any)
			switch inner.Kind() {
			case reflect.Slice:
				below = elements["items"]
			case reflect.Map:
				below = elements["additionalProperties"]
			}
			inner = inner.Elem()
		}
		if _, ok := reflect.New(inner).Interface().(json.Unmarshaler); !ok && inner.Kind() == reflect.Struct {
			sameFields(tb, at+"."+name, inner, below)
		}
	}
	slices.Sort(want)
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(have))); d != "" {
		tb.Errorf("%s (-Go +schema):\n%s", at, d)
	}
	if object["additionalProperties"] != false {
		tb.Errorf("%s: other fields are allowed", at)
	}
}
