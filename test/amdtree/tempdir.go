package amdtree

import (
	"os"
	"testing"
)

// TempDir is an empty directory that goes when the test ends, in memory where there
// is a file system for that: a machine in CPX has 8,000 files and directories, which
// cost a disk seconds.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "amdtree-")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}
