package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Verifies that an attribute whose file stays open is what [Attribute] returns at each moment: with
// another content, replaced, removed, there again, too long for a page, and when no more files may stay open.
func TestOpen(t *testing.T) {
	path := file(t, "one\n")
	o := NewOpen()
	defer o.Close()
	is := func(what, want string, stays bool) {
		t.Helper()
		if got, err := o.Attribute(path); err != nil || got != want {
			t.Errorf("%s: %.20q, %v; want %.20q", what, got, err, want)
		}
		if _, open := o.files[path]; open != stays {
			t.Errorf("%s: the file stays open: %v", what, open)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is("new", "one", true)
	fd := o.files[path]
	write("two\n")
	is("changed", "two", true)
	if o.files[path] != fd {
		t.Error("a file with other content was opened again")
	}
	if err := os.Rename(file(t, "three"), path); err != nil {
		t.Fatal(err)
	}
	is("replaced", "three", true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Attribute(path); !errors.Is(err, fs.ErrNotExist) || len(o.files) > 0 {
		t.Errorf("removed: %v, %d files are open", err, len(o.files))
	}
	write(strings.Repeat("x", 5000))
	is("long", strings.Repeat("x", 5000), false)
	write("")
	is("empty", "", true)
	for i := range maxOpen() {
		o.files[filepath.Join("/none", strconv.Itoa(i))] = -1
	}
	if delete(o.files, path); len(o.files) < maxOpen() {
		t.Fatal("too few files")
	}
	write("one")
	is("with too many open files", "one", false)
}
