package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/checkpoint"
)

func TestSweepOfAMissingDirectory(t *testing.T) {
	swept, err := checkpoint.Sweep(filepath.Join(t.TempDir(), "gone"), "state")
	if err != nil || len(swept) != 0 {
		t.Errorf("swept %v, %v; want nothing", swept, err)
	}
}

// Verifies that a damaged file, a link or a directory is moved aside, that the newest file is
// kept, and that a failure is explained.
func TestQuarantine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if text := checkpoint.Quarantine(path); !strings.Contains(text, "could not be moved aside") {
		t.Errorf("of nothing: %s", text)
	}
	for _, content := range []string{"first", "second"} {
		must(t, os.WriteFile(path, []byte(content), 0o600))
		if text := checkpoint.Quarantine(path); text != "it was moved to "+path+".corrupt" {
			t.Error(text)
		}
		if got, err := os.ReadFile(path + ".corrupt"); err != nil || string(got) != content {
			t.Errorf("moved %q, %v; want %q", got, err, content)
		}
	}
	for what, put := range map[string]func() error{
		"a link":      func() error { return os.Symlink("/dev/null", path) },
		"a directory": func() error { return errors.Join(os.Remove(path+".corrupt"), os.MkdirAll(path+"/x", 0o700)) },
	} {
		must(t, put())
		checkpoint.Quarantine(path)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", what, err)
		}
		must(t, os.RemoveAll(path+".corrupt"))
		must(t, os.WriteFile(path+".corrupt", nil, 0o600))
	}
}
