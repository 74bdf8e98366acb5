package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Verifies that only the agent's user can connect, whatever the umask.
func TestUnix(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	listener, err := Unix(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
}
