package manifest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/sandbox"
)

// editorSchema is the JSON schema of manifests, for editors.
const editorSchema = "../../deployments/schema/backend-manifest.json"

// Verifies that the schema for editors has exactly the fields of the types and the groups of system calls that there are.
func TestSchemaAgrees(t *testing.T) {
	text, err := os.ReadFile(editorSchema)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	definitions := root["$defs"].(map[string]any)
	for name, of := range map[string]reflect.Type{
		"": reflect.TypeFor[document](), "class": reflect.TypeFor[Class](), "preparedFor": reflect.TypeFor[Setting](), "attribute": reflect.TypeFor[Attribute](), "hardware": reflect.TypeFor[Hardware](), "pause": reflect.TypeFor[Pause](), "look": reflect.TypeFor[Look](),
		"process": reflect.TypeFor[ProcessGroup](), "containers": reflect.TypeFor[ContainerGroup](), "reference": reflect.TypeFor[Reference](), "condition": reflect.TypeFor[Condition](),
	} {
		part := root
		if name != "" {
			part = definitions[name].(map[string]any)
		}
		if part["additionalProperties"] != false {
			t.Errorf("%s: unknown fields pass", name)
		}
		var fields []string
		for i := range of.NumField() {
			field, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
			fields = append(fields, field)
		}
		properties := part["properties"].(map[string]any)
		for field := range properties {
			if !slices.Contains(fields, field) {
				t.Errorf("%s: the schema has the field %s, the type has not", name, field)
			}
		}
		if len(properties) != len(fields) {
			t.Errorf("%s: the schema has %d fields, the type %q", name, len(properties), fields)
		}
	}
	groups, err := json.Marshal(sandbox.CallGroups())
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"enum": ` + strings.ReplaceAll(string(groups), ",", ", ") + "}"; !bytes.Contains(text, []byte(want)) {
		t.Errorf("systemCalls in the schema: want %s", want)
	}
}

// compiled returns a function that validates a manifest by the schema for editors.
func compiled(t *testing.T) func(text string) error {
	t.Helper()
	compile, err := jsonschema.NewCompiler().Compile(editorSchema)
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		return compile.Validate(instance)
	}
}

// Verifies that both the schema for editors and Load accept the manifests that there are, also those in documents, and refuse
// what an editor should underline.
func TestSchemaJudges(t *testing.T) {
	validate := compiled(t)
	manifests := map[string]string{}
	for _, pattern := range []string{"backends/*/manifest.yaml", "backends/examples/*/manifest.yaml", "docs/*.md", "backends/examples/*/README.md"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(file) == ".yaml" {
				manifests[file] = string(text)
				continue
			}
			for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
				block, _, _ = strings.Cut(block, "```")
				switch field, _, _ := strings.Cut(block, ":"); field {
				case "apiVersion":
					manifests[file] = block
				case "settings":
					manifests[file+" "+field+".md"] = plain[:strings.Index(plain, "settings:")] + block
				case "attributes", "labels", "hardware", "pausedWhile":
					manifests[file+" "+field] = plain + block
				}
			}
		}
	}
	if len(manifests) < 12 {
		t.Errorf("only %d manifests were found", len(manifests))
	}
	for name, text := range manifests {
		if !strings.HasPrefix(text, "apiVersion: "+APIVersion) {
			continue // another object's
		}
		if err := validate(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Load(write(t, text)); filepath.Ext(name) == ".md" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range []string{
		"proces: []", "abilities: [rest]", "hardware: [{device: '0001', name: X}]", "hardware: [{vendor: 1002, name: X}]", "inUse: kernel", "look: {prepare: {setting: a}}", "classes: [GPU]", "classes: [{name: holder}]", "classes: [{name: gpu, if: {setting: dir}}]", "labels: [a/b]",
		"attributes: [{name: a, about: a, values: a}]", "attributes: [{name: a, about: a, classes: [GPU]}]",
		"attributes: [{name: a}]", "attributes: [{about: a}]", "attributes: [{name: a, about: a, kind: integer}]", "pausedWhile: [{label: a}]", "settings: {file: ../x.json}",
		"process: [{read: [/sys/**]}]", "process: [{why: it, red: [/sys/**]}]", "process: [{why: it, read: [sys]}]", "process: [{why: it, read: [{seting: dir}]}]",
		"process: [{why: it, capabilities: [SYS_ADMIN]}]", "process: [{why: it, systemCalls: ['@raw']}]", "process: [{why: it, when: {setting: dir, is: [a], not: [b]}}]",
		"containers: [{why: it, gids: [0]}]", "containers: [{why: it, device: [/dev/x]}]", "containers: [{why: it, devices: [{setting: dir, below: /x}]}]",
	} {
		text := wrong + "\n"
		for line := range strings.Lines(plain) {
			if field, _, _ := strings.Cut(wrong, ":"); !strings.HasPrefix(line, field+":") && (field != "settings" || !strings.HasPrefix(line, " ")) {
				text += line
			}
		}
		if validate(text) == nil {
			t.Errorf("an editor does not underline %s", wrong)
		}
		if _, err := Load(write(t, text)); err == nil && !strings.Contains(wrong, "@raw") {
			t.Errorf("Load accepts %s", wrong)
		}
	}
	if err := validate(plain); err != nil {
		t.Error(err)
	}
}
