package made

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Verifies that the record is there after a restart, that a change which cannot be stored does not count,
// and that a damaged file is an error.
func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "made.json")
	open := func() *Record {
		t.Helper()
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	if err := r.Put("a", "x"); err == nil || r.Holder("a") != "" {
		t.Errorf("recorded %q without a directory: %v", r.Holder("a"), err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".made.json"), []byte("longer than what is written"), 0o600); err != nil { // left by a crash
		t.Fatal(err)
	}
	for device, holder := range map[string]string{"a": "x", "b": "y", "c": "z"} {
		if err := r.Put(device, holder); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Remove("b", "unknown"); err != nil {
		t.Fatal(err)
	}
	if r = open(); len(r.Devices()) != 2 || r.Holder("a") != "x" || r.Holder("b") != "" || r.Holder("c") != "z" {
		t.Errorf("after a restart the record has %v", r.Devices())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("there are the files %v, want the record alone: %v", files, err)
	}
	for _, text := range []string{`{"a":`, "null"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("a file with %s: %v", text, err)
		}
	}
}
