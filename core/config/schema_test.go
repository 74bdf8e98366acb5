package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/sandbox"
)

// node is a part of a JSON schema.
type node map[string]any

// schema returns the JSON schema of the configuration file, which is for editors.
func schema(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSchemaAgrees verifies that the schema has exactly the fields of the types.
func TestSchemaAgrees(t *testing.T) {
	var root node
	if err := json.Unmarshal(schema(t), &root); err != nil {
		t.Fatal(err)
	}
	agree(t, root, root, reflect.TypeFor[NodeConfig](), "")
}

// TestSchemaHasTheCallGroups verifies that the schema accepts the groups of system calls that there are.
func TestSchemaHasTheCallGroups(t *testing.T) {
	groups, err := json.Marshal(sandbox.CallGroups())
	if err != nil {
		t.Fatal(err)
	}
	if want := `"items": {"enum": ` + strings.ReplaceAll(string(groups), ",", ", ") + "}"; !bytes.Contains(schema(t), []byte(want)) {
		t.Errorf("systemCalls in the schema: want %s", want)
	}
}

// agree compares the fields of a schema with those of a type.
func agree(t *testing.T, root, schema node, of reflect.Type, path string) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = root["$defs"].(map[string]any)[filepath.Base(ref)].(map[string]any)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if element, ok := schema[inner].(map[string]any); ok && (of.Kind() == reflect.Slice || of.Kind() == reflect.Map) {
			agree(t, root, element, of.Elem(), path+"[]")
		}
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	properties := schema["properties"].(map[string]any)
	if schema["additionalProperties"] != false {
		t.Errorf("%s: the schema lets unknown fields through", path)
	}
	fields, names := yamlFields(of)
	for name := range properties {
		if !slices.Contains(names, name) {
			t.Errorf("%s: the schema has the field %s, the type has not", path, name)
		}
	}
	for name, i := range fields {
		property, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("%s: the schema lacks the field %s", path, name)
			continue
		}
		agree(t, root, property, of.Field(i).Type, path+"."+name)
	}
}

// TestSchemaJudges verifies that the schema is valid, accepts the examples, and
// refuses what an editor should underline.
func TestSchemaJudges(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema(t)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("nodeconfig.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("nodeconfig.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text []byte) error {
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		return compiled.Validate(instance)
	}
	for _, file := range []string{"testdata/full.yaml", "testdata/minimal.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for name, want := range map[string]bool{
		"nvidia.com/mig-{profile}": true, "ex.com/{a}_{b}": true, "ex.com/a{accelmux.io/class}b": true,
		"ex.com/{a": false, "ex.com/a}": false, "ex.com/{}": false, "ex.com/{a b}": false, "{a}.com/b": false, "ex.com/-{a}": false, "ex.com/{other/a}": false,
	} {
		text := strings.Replace(with("", ""), "example.com/gpu", strconv.Quote(name), 1)
		_, err := Parse("node.yaml", []byte(text))
		if got := validate([]byte(text)); (got == nil) != want || (err == nil) != want {
			t.Errorf("the name %s: the schema says %v, the loader %v; accepted is to be %v", name, got, err, want)
		}
	}
	for _, extra := range []struct{ backend, resource string }{
		{"heartbeat: 10", ""}, {"holdovr: 1s", ""}, {"env: {PLUGIN_X: y}", ""}, {"command: a/b", ""}, {"settings: [1]", ""},
		{"allow: {devices: [dev]}", ""}, {"allow: {declared: all}", ""}, {"allow: {env: ['*']}", ""}, {"allow: {gids: [0]}", ""}, {"", "replicas: 0"}, {"", "injection: oci"}, {"", "class: GPU"}, {"", "maxReplicasPerContainer: -1"},
		{"", "allocation: pack"}, {"", "allocation: {policy: packed}"}, {"", "allocation: {links: strongest}"},
		{"", "parameters: {4x: {value: a}}"}, {"", "parameters: {a: {}}"}, {"", "parameters: {a: {annotation: /a}}"},
		{"dra: {kinds: [{kind: A}]}", ""}, {"dra: {kinds: [{apiVersion: v1, kind: A}]}", ""}, {"dra: {kinds: [{apiVersion: a/v1, kind: a}]}", ""},
		{"dra: {kinds: [{apiVersion: a/v1, kind: A, fields: {a..b: c}}]}", ""}, {"dra: {kinds: [{apiVersion: a/v1, kind: A, fields: {a.b: c-d}}]}", ""},
		{"", "parameters: {a: {env: A-B}}"}, {"", "parameters: {a: {vlaue: b}}"},
	} {
		if validate([]byte(with(extra.backend, extra.resource))) == nil {
			t.Errorf("the schema accepts %q %q", extra.backend, extra.resource)
		}
	}
}
