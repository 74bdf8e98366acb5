package sysroot

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Fixture is the path of a file below the directory of captures: ACCELMUX_FIXTURES,
// or shared/fixtures beside the project. It is fs.ErrNotExist where there is none.
func Fixture(name string) (string, error) {
	dir := os.Getenv("ACCELMUX_FIXTURES")
	if dir == "" {
		_, here, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(here), "..", "..", "..", "shared", "fixtures")
	}
	path := filepath.Join(dir, name)
	_, err := os.Stat(path)
	return path, err
}

// Captured is [Fixture] for a test, which is skipped where there is none: the captures
// are not part of the project, and no machine has to have them.
func Captured(tb testing.TB, name string) string {
	tb.Helper()
	path, err := Fixture(name)
	if err != nil {
		tb.Skipf("there is no capture %s here (ACCELMUX_FIXTURES says where they are): %v", name, err) //nolint:forbidigo // it is by design
	}
	return path
}
