package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// Verifies that only a file of the agent's own is opened, that nothing else is waited for, changed or
// created.
func TestOpen(t *testing.T) {
	const both, victimText = os.O_RDWR | os.O_CREATE, "precious"
	for name, c := range map[string]struct {
		plant  func(victim, path string) error
		reads  string // "": not opened for reading
		writes bool
	}{
		"a file":       {plant: func(_, path string) error { return os.WriteFile(path, []byte("text"), 0o600) }, reads: "text", writes: true},
		"a hard link":  {plant: os.Link, reads: victimText},
		"a link":       {plant: os.Symlink},
		"link to none": {plant: func(victim, path string) error { return os.Symlink(victim+"-gone", path) }},
		"a pipe":       {plant: func(_, path string) error { return syscall.Mkfifo(path, 0o600) }},
		"a directory":  {plant: func(_, path string) error { return os.Mkdir(path, 0o700) }},
		"a socket": {plant: func(_, path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			return errors.Join(err, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Close(fd))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "own")
			must(t, errors.Join(os.WriteFile(victim, []byte(victimText), 0o600), c.plant(victim, path)))
			for flags, opens := range map[int]bool{os.O_RDONLY: c.reads != "", os.O_WRONLY: c.writes, both: c.writes} {
				file, err := checkpoint.Open(path, flags, 0o600)
				switch {
				case err == nil && !opens:
					t.Errorf("it is opened with %#x", flags)
				case err != nil && opens:
					t.Error(err)
				case err != nil && (!errors.Is(err, checkpoint.ErrIrregular) || !strings.Contains(err.Error(), path)):
					t.Errorf("the error is %v", err)
				}
				if err == nil {
					must(t, file.Close())
				}
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != victimText {
				t.Errorf("the victim is %q, %v", text, err)
			}
			if _, err := os.Stat(victim + "-gone"); err == nil {
				t.Error("a file is made where the link leads")
			}
		})
	}
	path := filepath.Join(t.TempDir(), "new")
	if _, err := checkpoint.Open(path, os.O_RDONLY, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	file, err := checkpoint.Open(path, both, 0o600)
	must(t, err)
	must(t, file.Close())
}
