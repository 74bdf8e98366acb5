package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Verifies that patterns stand for the files that filepath.Glob finds.
func TestGlob(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o700), os.Mkdir(filepath.Join(dir, "c"), 0o700), os.WriteFile(filepath.Join(dir, "c/x1"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "a/b/x2"), nil, 0o600), os.WriteFile(filepath.Join(dir, "a/[x]"), nil, 0o600), os.Symlink("a", filepath.Join(dir, "link")),
		os.Symlink("nowhere", filepath.Join(dir, "broken")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"", "/a", "/*", "/*/*", "/?/x1", "/[ac]/*", "/a/*/x?", `/a/\[x\]`, "/a/[", "/none/*", "/link/*", "/broken", "/fifo/*", "/c/x1/*"} {
		want, _ := filepath.Glob(dir + pattern)
		if got := find(dir + pattern).files; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	if got := find("/").files; !slices.Equal(got, []string{"/"}) {
		t.Errorf("the root: %q", got)
	}
}

// Verifies that a pattern that stands for too many files, or for which too many names would be compared, gives none.
func TestGlobIsBounded(t *testing.T) {
	dir := t.TempDir()
	for _, parent := range []string{"a", "b"} {
		for i := range maxMatches/2 + 1 {
			if err := os.MkdirAll(filepath.Join(dir, parent, fmt.Sprint(i)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := len(find(dir + "/a/*").files); got != maxMatches/2+1 {
		t.Errorf("%d files", got)
	}
	if got := len(find(dir + "/*/*").files); got != 0 {
		t.Errorf("%d files, more than %d", got, maxMatches)
	}
	if _, read := matching(dir+"/a", "*", 300); read > 512 {
		t.Errorf("%d names were read", read)
	}
}
