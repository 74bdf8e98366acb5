package sysroot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A temporary directory is empty, and goes with its test.
func TestTempDir(t *testing.T) {
	var dirs []string
	t.Run("uses two", func(t *testing.T) { dirs = []string{TempDir(t), TempDir(t)} })
	if dirs[0] == dirs[1] {
		t.Errorf("%s was given twice", dirs[0])
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

// Each kind of damage makes something else of a file, also of one that a link leads to.
func TestDamages(t *testing.T) {
	for name, damage := range Damages {
		path := filepath.Join(TempDir(t), "file")
		if err := os.WriteFile(path, []byte("ue: 12\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := damage(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s, err := os.Lstat(path)
		if (err != nil) != (name == "missing") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil || !s.Mode().IsRegular() {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) == "ue: 12\n" {
			t.Errorf("%s: the file is %q, %v", name, b, err)
		}
	}
}

// A file is replaced where it is, not where a link to its directory is.
func TestReplace(t *testing.T) {
	w := Writer{Root: TempDir(t)}
	w.File("sys/devices/card/id", "1\n")
	w.Relative("sys/class/card0", "sys/devices/card")
	name, err := Real(w.Root, "sys/class/card0/id")
	if w.Err != nil || err != nil || name != "sys/devices/card/id" {
		t.Fatalf("it is really %q: %v, %v", name, err, w.Err)
	}
	before, err := os.Open(w.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	if err := Replace(w.Root, name, "2\n"); err != nil {
		t.Fatal(err)
	}
	was := make([]byte, 2)
	if _, err := before.Read(was); err != nil || string(was) != "1\n" {
		t.Errorf("who had the file open reads %q: %v", was, err)
	}
	if is, err := os.ReadFile(w.Path("sys/class/card0/id")); err != nil || string(is) != "2\n" {
		t.Errorf("the file is %q: %v", is, err)
	}
	if left, err := os.ReadDir(w.Path(Staging)); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// After the first error nothing is made any more, and that error stays.
func TestWriter(t *testing.T) {
	w := Writer{Root: TempDir(t)}
	w.File("sys/a", "")
	w.Dir("sys/a/b") // sys/a is a file
	first := w.Err
	w.File("sys/c", "")
	w.Link("sys/d", "c")
	w.Node("sys/e", 1, 3)
	w.Remove("sys/a")
	w.Do(errors.New("another"))
	if first == nil || !errors.Is(w.Err, first) {
		t.Errorf("the error was %v and is %v", first, w.Err)
	}
	for name, there := range map[string]bool{"sys/a": true, "sys/c": false, "sys/d": false, "sys/e": false} {
		if _, err := os.Lstat(w.Path(name)); errors.Is(err, fs.ErrNotExist) == there {
			t.Errorf("%s: %v", name, err)
		}
	}
}
