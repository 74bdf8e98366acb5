package made

import (
	"errors"
	"maps"
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
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // in the place of the directory
		t.Fatal(err)
	}
	if err := r.Put("a", "x"); err == nil || r.Holder("a") != "" {
		t.Errorf("recorded %q without a directory: %v", r.Holder("a"), err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := r.Put("a", "first"); err != nil { // makes the directory
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

// Verifies that a record has what another process stored: in a takeover the backends of two agents run, and the earlier
// one still makes devices.
func TestRecordOfTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made.json")
	var all [2]*Record
	for i := range all {
		var err error
		if all[i], err = Open(path); err != nil {
			t.Fatal(err)
		}
	}
	older, newer := all[0], all[1]
	for _, change := range []func() error{
		func() error { return older.Put("a", "x") }, func() error { return older.Put("b", "y") },
		func() error { return older.Remove("a") }, func() error { return newer.Put("c", "z") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if newer.Holder("a") != older.Holder("a") || !maps.Equal(newer.Devices(), older.Devices()) {
			t.Errorf("one has %v, the other %v", older.Devices(), newer.Devices())
		}
	}
	if !maps.Equal(newer.Devices(), map[string]string{"b": "y", "c": "z"}) {
		t.Errorf("in the end it has %v", newer.Devices())
	}
}

// Verifies that the zero value is a record without a file.
func TestZeroRecord(t *testing.T) {
	r := &Record{}
	if err := r.Remove("a"); err != nil || r.Holder("a") != "" {
		t.Error(err)
	}
	if err := r.Put("a", "x"); err != nil || r.Holder("a") != "x" || len(r.Devices()) != 1 {
		t.Errorf("%v, %v", err, r.Devices())
	}
}

// There is one record of a file in a process, and none without a file.
func TestFiles(t *testing.T) {
	var files Files
	path := filepath.Join(t.TempDir(), "made.json")
	first, err := files.Open(path)
	again, errAgain := files.Open(path)
	none, errNone := files.Open("")
	if err := errors.Join(err, errAgain, errNone); err != nil || first == nil || first != again || none != nil {
		t.Errorf("the records are %p and %p, without a file %p: %v", first, again, none, err)
	}
}
