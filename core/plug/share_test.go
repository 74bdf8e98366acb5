package plug

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/core/sandbox"
)

// Verifies that the directory of a socket that is shared with a backend's container is shared by no link: a process there can
// put one in its place.
func TestSharedByLink(t *testing.T) {
	dir := t.TempDir()
	plantWith(t, filepath.Join(dir, "backends"), "word")
	p, err := Find(filepath.Join(dir, "backends"), "backend", Pins{})
	must(t, err)
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	must(t, os.Mkdir(victim, 0o700))
	must(t, os.Symlink(victim, link))
	r, err := Open(Options{RunDir: filepath.Join(dir, "run"), Launchers: map[string]string{"backend": filepath.Join(dir, "launcher.sock")}})
	must(t, err)
	_, err = r.sandbox(Start{Program: p, Policy: sandbox.Policy{}}, link)
	if info, statErr := os.Stat(victim); err == nil || statErr != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the directory has the mode %v, %v; sandbox: %v", info.Mode(), statErr, err)
	}
}
