// Package schema verifies the JSON schema of node configurations for editors: deployments/schema/nodeconfig.json, which is
// that of package config with the settings of accelmux' own backends. `make manifests` writes it.
package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/manifest"
)

const file = "../../deployments/schema/nodeconfig.json"

var update = flag.Bool("update", false, "write the schema")

// object is a JSON object.
type object = map[string]any

// whole returns the schema with the settings of the backends. Their definitions are among those of the schema, as not all
// editors resolve references within a part that has an $id of its own.
func whole(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../core/config/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	all := decode(t, text)
	definitions := all["$defs"].(object)
	var rules []any
	for _, backend := range []string{"amd", "device", "fpga", "mock", "nvidia"} {
		m, err := manifest.Load("../../backends/" + backend + "/manifest.yaml")
		if err != nil {
			t.Fatal(err)
		}
		name := "settings." + backend
		settings := decode(t, []byte(strings.ReplaceAll(m.Description.SettingsSchema, `"#/$defs/`, `"#/$defs/`+name+".")))
		own, _ := settings["$defs"].(object)
		for inner, definition := range own {
			definitions[name+"."+inner] = definition
		}
		delete(settings, "$defs")
		delete(settings, "$schema")
		settings["type"] = []any{"object", "null"}
		definitions[name] = settings
		program := object{"properties": object{"command": object{"const": config.CommandPrefix + backend}}, "required": []any{"command"}}
		byName := object{"properties": object{"name": object{"const": backend}, "command": object{"type": "null"}}, "required": []any{"name"}}
		rules = append(rules, object{
			"if":   object{"anyOf": []any{program, byName}},
			"then": object{"properties": object{"settings": object{"$ref": "#/$defs/" + name}}},
		})
	}
	definitions["backend"].(object)["allOf"] = rules
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(all); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func decode(t *testing.T, text []byte) object {
	t.Helper()
	var all object
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Verifies that the file is that of the present sources.
func TestSchemaIsCurrent(t *testing.T) {
	want := whole(t)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, have) {
		t.Fatalf("%s is not current (%v): run `make manifests`", file, err)
	}
}

// Verifies that an editor underlines what is wrong in the settings of accelmux' own backends, and nothing in those of
// others or in the examples.
func TestSchemaKnowsSettings(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(whole(t)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("nodeconfig.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("nodeconfig.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text []byte) error {
		asJSON, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		return compiled.Validate(instance)
	}
	for backend, want := range map[string]bool{
		"{name: nvidia}":                                                                     true,
		"{name: nvidia, settings: null}":                                                     true,
		"{name: nvidia, settings: {mig: {strategy: mixed}}}":                                 true,
		"{name: nvidia, settings: {mig: {strategy: mixd}}}":                                  false,
		"{name: nvidia, settings: {rescna: 3s}}":                                             false,
		"{name: nvidia, settings: {rescan: 3}}":                                              false,
		"{name: nvidia, command: null, settings: {rescna: 3s}}":                              false,
		"{name: nvidia, command: acme, settings: {rescna: 3s}}":                              true,
		"{name: other, command: accelmux-backend-nvidia, settings: {rescna: 3s}}":            false,
		"{name: acme, settings: {a: b}}":                                                     true,
		"{name: amd, settings: {partitions: {a: b}}}":                                        false,
		"{name: fpga, settings: {mode: af}}":                                                 true,
		"{name: fpga, settings: {mode: fa}}":                                                 false,
		"{name: mock, settings: {devices: [{count: 2, edits: {env: {A: b}}}]}}":              true,
		"{name: mock, settings: {devices: [{cuont: 2}]}}":                                    false,
		"{name: mock, settings: {cuont: 2}}":                                                 false,
		"{name: device, settings: {presets: [kvm]}}":                                         true,
		"{name: device, settings: {presets: [kmv]}}":                                         false,
		"{name: device, settings: {kinds: [{name: a, match: {class: tty}, attributs: {}}]}}": false,
	} {
		text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: a, backends: [" + backend + "]}]\n"
		if err := validate([]byte(text)); (err == nil) != want {
			t.Errorf("%s: %v", backend, err)
		}
	}
	for _, example := range examples(t) {
		if err := validate([]byte(example.text)); err != nil {
			t.Errorf("%s: %v", example.path, err)
		}
	}
}

// example is a node configuration in a file.
type example struct{ path, text string }

// examples returns the node configurations for people: files, and those in documents.
func examples(t *testing.T) (all []example) {
	t.Helper()
	for _, pattern := range []string{"deployments/examples/*.yaml", "docs/*.md", "backends/*/README.md", "backends/examples/*/README.md", "README.md"} {
		paths, err := filepath.Glob("../../" + pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts := []string{string(content)}
			if filepath.Ext(path) == ".md" {
				texts = strings.Split(string(content), "```yaml\n")[1:]
			}
			for _, text := range texts {
				if text, _, _ = strings.Cut(text, "```"); strings.Contains(text, "\nkind: "+config.Kind) {
					all = append(all, example{path, text})
				}
			}
		}
	}
	return all
}

// Verifies that editors find the schema of each example: of a node configuration where packages install it, of values for
// the chart beside them.
func TestExamplesNameTheirSchema(t *testing.T) {
	const modeline = "# yaml-language-server: $schema="
	packages, err := os.ReadFile("../../deployments/packages/nfpm.yaml")
	if err != nil || !strings.Contains(string(packages), "src: deployments/schema/nodeconfig.json\n    dst: "+strings.TrimPrefix(config.Modeline, modeline)+"\n") {
		t.Errorf("the packages do not install what %q names: %v", config.Modeline, err)
	}
	for _, example := range examples(t) {
		if !strings.HasPrefix(example.text, config.Modeline+"\n") {
			t.Errorf("%s does not begin with %q", example.path, config.Modeline)
		}
	}
	values, err := filepath.Glob("../../deployments/helm/accelmux/examples/*.yaml")
	if err != nil || len(values) == 0 {
		t.Fatal(err, values)
	}
	for _, path := range append(values, "../../deployments/kind/values.yaml") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		schema, ok := strings.CutPrefix(first, modeline)
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), schema)); !ok || err != nil {
			t.Errorf("%s begins with %q: %v", path, first, err)
		}
	}
}
