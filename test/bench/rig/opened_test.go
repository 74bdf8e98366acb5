package rig

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOpened verifies that the first time counts at which the file is opened, also after it
// was replaced, and none at which another one is.
func TestOpened(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"counter", "counters"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, read := range []struct {
		name  string
		noted bool
	}{{"counters", false}, {"counter", true}} {
		opened, err := WatchOpened(dir, "counter")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "counter"), filepath.Join(dir, "old")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "counter")); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(filepath.Join(dir, read.name)); err != nil {
			t.Fatal(err)
		}
		at, err := opened.End()
		if err != nil {
			t.Fatal(err)
		}
		if noted := !at.IsZero(); noted != read.noted {
			t.Errorf("a look at %s: noted is %v, want %v", read.name, noted, read.noted)
		}
	}
}
