package sysroot

import (
	"os"
	"path/filepath"
	"runtime"
)

// Fixture is the path of a file below the directory of captures: ACCELMUX_FIXTURES,
// or shared/fixtures beside the project. It is fs.ErrNotExist where there is none;
// tests skip then.
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
