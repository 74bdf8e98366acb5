package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
)

// A value is written in place: no file is created or truncated.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "errors")
	if err := Write(path, "0x12"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("0x0000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, "0x12"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "0x1200000\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// The error of a write to a read-only file system, as ProtectKernelTunables=yes of the unit makes /sys, names the setting.
func TestWriteToReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "reset")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	var wrong error
	go func() {
		runtime.LockOSThread() // the thread, in its own mount namespace, ends with the goroutine
		wrong = errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		written <- Write(path, "1")
	}()
	err := <-written
	if errors.Is(wrong, fs.ErrPermission) {
		host.Lacks(t, "a mount needs root: %v", wrong)
	}
	if wrong != nil || !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "ProtectKernelTunables=no") {
		t.Errorf("%v, %v", err, wrong)
	}
}
