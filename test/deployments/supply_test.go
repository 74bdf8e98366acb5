package deployments

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSBOM verifies that the SBOM of each program is CycloneDX by its own schema, and has the modules in
// the program with their versions, and Go's.
func TestSBOM(t *testing.T) {
	schema := cycloneDX(t)
	for _, program := range append(programs(t), filepath.Join(bin, "kubectl-accelmux")) {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(bin, "sbom", filepath.Base(program)+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", program, err)
		}
		var sbom struct {
			Metadata   struct{ Component component }
			Components []component
		}
		if err := json.Unmarshal(text, &sbom); err != nil {
			t.Fatal(err)
		}
		got, want := map[string]string{}, map[string]string{"std": info.GoVersion}
		for _, c := range sbom.Components {
			got[c.Name] = c.Version
		}
		for _, module := range info.Deps {
			if want[module.Path] = module.Version; module.Replace != nil { // it is of this repository
				want[module.Path] = sbom.Metadata.Component.Version
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-program +SBOM):\n%s", program, diff)
		}
	}
	if err := schema.Validate(map[string]any{"bomFormat": "CycloneDX"}); err == nil {
		t.Error("the schema accepts a document without a version")
	}
}

// programs are the programs of the agent, its backends and its hook in bin.
func programs(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(bin, "accelmux*"))
	all = slices.DeleteFunc(all, func(path string) bool { return filepath.Ext(path) != "" }) // what lies beside them
	if err != nil || len(all) < 7 {
		t.Fatalf("programs %q: %v", all, err)
	}
	return all
}

// component is a component in an SBOM.
type component struct{ Name, Version string }

// cycloneDX returns the schema of CycloneDX 1.6, which its Go module has.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir := strings.TrimSpace(must(t, "go", "list", "-modfile=deployments/supply.mod", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	compiler := jsonschema.NewCompiler()
	for file, name := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schemax.json": "jsf-0.82.schema.json"} {
		text, err := os.ReadFile(filepath.Join(dir, "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+name, document); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestNotices verifies that third parties' licences are with the programs: each module in a program has
// its licence there, with the notices that Apache's licence asks for, and Go's.
func TestNotices(t *testing.T) {
	notices, err := os.ReadFile(filepath.Join(bin, "THIRD_PARTY_NOTICES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range append(programs(t), filepath.Join(bin, "kubectl-accelmux")) {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range info.Deps {
			// The licence is with the module, or with each of its packages.
			if !bytes.Contains(notices, []byte("\n"+module.Path+"/")) && !strings.HasPrefix(module.Path, "github.com/accelmux/accelmux") {
				t.Errorf("%s has %s, whose licence is missing", program, module.Path)
			}
		}
	}
	for _, want := range []string{"\nGo/LICENSE\n", "\nGo/PATENTS\n", "/NOTICE\n", "Mozilla Public License"} {
		if !bytes.Contains(notices, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
}
