package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/core/handover"
)

// Verifies that a CDI directory that was removed and made again is taken again, and that
// one that another agent has taken meanwhile is told of, and taken when it is free.
func TestCDIDirectoryIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // nothing that is waited for takes time
		dir := filepath.Join(t.TempDir(), "cdi")
		c := cdiLock{dir: dir, stateDir: "state", log: slog.New(slog.DiscardHandler)}
		other := func() *handover.DirLock {
			t.Helper()
			lock, err := handover.LockDir(dir)
			if err != nil && !errors.Is(err, handover.ErrHeld) {
				t.Fatal(err)
			}
			return lock
		}
		release := func(lock *handover.DirLock) {
			t.Helper()
			if err := lock.Release(); err != nil {
				t.Fatal(err)
			}
		}
		remove := func() {
			t.Helper()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.take(); err != nil || other() != nil {
			t.Fatalf("take: %v; or another one gets it, too", err)
		}
		lock := c.lock
		if retry := c.keep(); !retry.IsZero() || c.lock != lock {
			t.Error("a directory that nobody touched is taken again")
		}
		remove()
		if retry := c.keep(); !retry.IsZero() || other() != nil {
			t.Error("a directory that was removed is not made and taken again")
		}
		remove()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		theirs := other()
		if theirs == nil {
			t.Fatal("a directory that is new is taken already")
		}
		if retry := c.keep(); retry.IsZero() || len(c.notes()) != 1 {
			t.Errorf("another one has the directory: the next look is at %v, notes are %q", retry, c.notes())
		}
		if err := c.take(); err == nil {
			t.Error("an agent starts in another one's directory")
		}
		release(theirs)
		if retry := c.keep(); !retry.IsZero() || len(c.notes()) != 0 || other() != nil {
			t.Errorf("a directory that is free again is not taken; notes are %q", c.notes())
		}
		if err := c.release(); err != nil {
			t.Fatal(err)
		}
		release(other())
	})
}
