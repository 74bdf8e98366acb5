package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Verifies that a manifest that is loaded again is the same one as long as all its files are, and that a change of any of
// them, a preset more or less, and a check that fails are noticed.
func TestLoadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS("../../backends/device")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "manifest.yaml")
	load := func() *Manifest {
		t.Helper()
		m, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := load()
	if load() != first {
		t.Error("a manifest whose files are the same was decoded again")
	}
	rewrite := func(name string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text)+"\n")
	}
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"a preset more", func() { write("presets/more.yaml", "match: {class: more}\n") }},
		{"another preset", func() { rewrite("presets/kvm.yaml") }},
		{"a preset less", func() { _ = os.Remove(filepath.Join(dir, "presets/more.yaml")) }},
		{"another schema", func() { rewrite("settings.schema.json") }},
		{"another manifest", func() { rewrite("manifest.yaml") }},
	} {
		before := load()
		if c.change(); load().Sum == before.Sum {
			t.Errorf("%s: not noticed", c.what)
		}
	}
	failed := errors.New("owner")
	if _, err := Load(file, func(string, fs.FileInfo) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error of a check is %v", err)
	}
}
