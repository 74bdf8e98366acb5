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

// Settings verifies that a schema has the fields of the Go type of the settings, and that it and the
// backend agree on texts: each is accepted by both, or refused by both with its field, which the
// schema checks first. What only the backend can refuse has a space behind the field.
func Settings(tb testing.TB, schema string, settings reflect.Type, configure func(json.RawMessage) error, texts map[string]string) {
	tb.Helper()
	SameFields(tb, schema, settings)
	compiled := Schema(tb, schema)
	for text, field := range texts {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			tb.Fatal(err)
		}
		want, own := strings.CutSuffix(field, " ")
		if err := compiled.Validate(value); (err == nil) != (field == "" || own) {
			tb.Errorf("the schema says %v of %s", err, text)
		}
		// The text of sdk.FieldErrors begins with the first field.
		if err := configure(json.RawMessage(text)); (err != nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			tb.Errorf("%s: %v, want the field %q", text, err, want)
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
