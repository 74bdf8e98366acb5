package sysroot

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// memory is where a file system in memory usually is.
	memory = "/dev/shm"
	// enough is how many bytes must be free there: containers often have 64 MiB, which
	// one machine in CPX fills by half.
	enough = 1 << 30
)

// MakeTemp makes an empty directory, which the caller removes: in memory where there
// is a file system for that with room, since a machine in CPX has 8,000 files and
// directories, which cost a disk seconds.
func MakeTemp() (string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(memory, &stat); err == nil && stat.Bavail*uint64(stat.Bsize) >= enough {
		if dir, err := os.MkdirTemp(memory, "sysroot-"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "sysroot-")
}

// TempDir is a directory of MakeTemp that goes when the test ends.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := MakeTemp()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}
