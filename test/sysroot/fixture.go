package sysroot

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Captured is the path of a capture of a real machine, such as
// "amd/topology-parsing.tar.gz", or of a directory of them; testdata/README.md lists them.
// The test fails if there is none.
func Captured(tb testing.TB, name string) string {
	tb.Helper()
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "testdata", name)
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("there is no capture %s: %v", name, err)
	}
	return path
}
