package sysfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// For any length and limit, Read returns the file's beginning, and ErrTooLong if there is more.
func TestReadIsBounded(t *testing.T) {
	path := file(t, "")
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 20_000).Draw(t, "limit")
		content := bytes.Repeat([]byte("0123456789"), 3000)[:rapid.IntRange(0, 30_000).Draw(t, "length")]
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path, limit)
		if want := content[:min(limit, len(content))]; !bytes.Equal(got, want) {
			t.Fatalf("%d bytes were read, want %d", len(got), len(want))
		}
		if errors.Is(err, ErrTooLong) != (len(content) > limit) {
			t.Fatalf("%d bytes, limit %d: %v", len(content), limit, err)
		}
	})
}

// A path that is no regular file, or is endless, returns at once with an error.
func TestReadOfNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		pipe: ErrNotFile, dir: ErrNotFile, "/dev/zero": ErrNotFile, loop: unix.ELOOP,
		filepath.Join(dir, "missing"): fs.ErrNotExist, filepath.Join(pipe, "file"): unix.ENOTDIR,
	} {
		_, err := Read(path, Limit)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if _, err := Attribute(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("the attribute %s: %v", path, err)
		}
	}
	// Files of procfs have the size 0; they are read all the same.
	if b, err := Read("/proc/self/status", Limit); err != nil || len(b) == 0 {
		t.Errorf("/proc/self/status: %d bytes, %v", len(b), err)
	}
}

// An attribute of any length is read whole, without the white space around it.
func TestAttribute(t *testing.T) {
	for _, n := range []int{0, 1, 4093, 4094, 4095, 4096, 10_000} {
		want := strings.Repeat("x", n)
		if got, err := Attribute(file(t, " "+want+"\n")); err != nil || got != want {
			t.Errorf("%d of %d bytes, %v", len(got), n, err)
		}
	}
	if got, err := Attribute("/sys/devices/virtual/mem/null/dev"); err == nil && got != "1:3" {
		t.Errorf("/dev/null is %q", got)
	}
}

func TestUint(t *testing.T) {
	if n, err := Uint(file(t, "18446744073709551615\n")); err != nil || n != 1<<64-1 {
		t.Errorf("the largest number: %d, %v", n, err)
	}
	for text, want := range map[string]string{
		"": `"" is no number`, "-1": "no number", "+1": "no number", "0x10": "no number", "1_000": "no number",
		"1 2": "no number", "18446744073709551616": "more than 64 bits", "\x00\xff": `"\x00\xff" is no number`,
		strings.Repeat("9", 5000): "…", strings.Repeat(" ", Limit+1): ErrTooLong.Error(),
	} {
		path := file(t, text)
		n, err := Uint(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || len(err.Error()) > 300 {
			t.Errorf("%q: %d, %v; want %q", text[:min(len(text), 30)], n, err, want)
		}
	}
}

// The result of a read stays the same when other files are read.
func TestReadsShareNothing(t *testing.T) {
	texts := []string{"first", "second", strings.Repeat("long", 2000), ""}
	var all [][]byte
	for _, text := range texts {
		b, err := Read(file(t, text), Limit)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	beginning, err := Read(file(t, "another"), 2)
	if !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	all, texts = append(all, beginning), append(texts, "an")
	for i, b := range all {
		if string(b) != texts[i] {
			t.Errorf("it is %.20q now, was %.20q", b, texts[i])
		}
	}
}
