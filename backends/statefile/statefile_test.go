package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Verifies that what is in place of a file, or of its draft, is replaced: not followed, not waited for, and
// not written to.
func TestOnlyItsOwnFile(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(victim, at string) error
		reads bool
	}{
		"nothing":       {plant: func(string, string) error { return nil }},
		"a file":        {plant: func(_, at string) error { return os.WriteFile(at, nil, 0o600) }, reads: true},
		"a hard link":   {plant: os.Link, reads: true},
		"a link":        {plant: os.Symlink},
		"a dead link":   {plant: func(victim, at string) error { return os.Symlink(victim+"-gone", at) }},
		"a named pipe":  {plant: func(_, at string) error { return syscall.Mkfifo(at, 0o600) }},
		"an empty tree": {plant: func(_, at string) error { return os.Mkdir(at, 0o700) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "own", "state")
			for _, err := range []error{
				os.WriteFile(victim, []byte("precious"), 0o600), os.Mkdir(filepath.Dir(path), 0o700),
				c.plant(victim, path), c.plant(victim, filepath.Join(dir, "own", ".state")),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			_, err := Read(path)
			if (err == nil) != c.reads || err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), path+" is ") {
				t.Errorf("it is read: %v", err)
			}
			for _, durable := range []bool{true, false} {
				err := Replace(path, []byte("new"), 0o600, durable)
				if name == "an empty tree" { // which no rename replaces
					if err == nil {
						t.Error("a directory is replaced")
					}
					continue
				}
				if err != nil {
					t.Error(err)
				}
				if text, err := Read(path); err != nil || string(text) != "new" {
					t.Errorf("it has %q, %v", text, err)
				}
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("the victim is %q, %v", text, err)
			}
			if _, err := os.Stat(victim + "-gone"); err == nil {
				t.Error("a file is made where the link leads")
			}
		})
	}
}
