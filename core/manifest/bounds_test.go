package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Verifies that a directory is not mounted with what nobody gets below it.
func TestMountsAbove(t *testing.T) {
	for _, dir := range []string{"/", "/run", "/var", "/var/lib", "/etc", "/dev"} {
		for _, list := range []string{"mounts", "readOnlyMounts"} {
			_, err := Load(write(t, plain+"containers:\n  - why: it\n    "+list+": ["+dir+"]\n"))
			if err == nil || !strings.Contains(err.Error(), "may not be given to any backend") {
				t.Errorf("%s of %s: %v", list, dir, err)
			}
		}
	}
}

// Verifies that a manifest that is a FIFO is an error, and is not waited for.
func TestFIFO(t *testing.T) {
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Error(err)
	}
}

// Verifies that a schema of which each property refers to thousands ends as an error.
func TestReferenceBomb(t *testing.T) {
	var refs, properties []string
	for i := range 2000 {
		refs = append(refs, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/d"}`, i))
	}
	for i := range 8000 {
		properties = append(properties, fmt.Sprintf(`"q%d":{}`, i))
	}
	schema := `{"properties":{"a":{"items":{"properties":{` + strings.Join(refs, ",") + `}}}},"$defs":{"d":{"properties":{` + strings.Join(properties, ",") + `}}}}`
	file := write(t, strings.SplitN(plain, "settings:", 2)[0]+"settings: {file: s.json}\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "s.json"), []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, file).Rights(json.RawMessage(`{"a":[{}]}`)); err == nil || !strings.Contains(err.Error(), "join more than") {
		t.Error(err)
	}
}
