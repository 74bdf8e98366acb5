package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A value is written in place: no file is created or truncated.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "errors")
	if err := Write(path, "0x12"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("0x0000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, "0x12"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "0x1200000\n" {
		t.Errorf("%q, %v", text, err)
	}
}
