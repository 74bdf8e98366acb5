package sysroot

import (
	"os"
	"path/filepath"
	"testing"
)

// Captured is the path of a capture of a real machine, such as
// "amd/topology-parsing.tar.gz", or of a directory of them; testdata/README.md lists them.
// The test, which is one of this module, fails if there is none.
func Captured(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "test", "sysroot", "testdata", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			tb.Fatalf("there is no capture %s", path)
		}
	}
}
