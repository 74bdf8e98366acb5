package agent

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/handover"
)

// Verifies that a lock which goes a moment after its holder is waited for, and one that
// stays is not, for longer than a moment.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), runLockName)
		release, err := handover.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		lock := func() (func() error, error) { return handover.Lock(path) }
		began := time.Now()
		if _, err := patiently(lock); !errors.Is(err, handover.ErrHeld) {
			t.Errorf("the error is %v, want that of a lock that is held", err)
		}
		if took := time.Since(began); took < lockPatience || took > 2*lockPatience {
			t.Errorf("it took %v, want %v", took, lockPatience)
		}
		time.AfterFunc(lockPatience/2, func() {
			if err := release(); err != nil {
				t.Error(err)
			}
		})
		again, err := patiently(lock)
		if err != nil {
			t.Fatalf("a lock that is free after a moment: %v", err)
		}
		if err := again(); err != nil {
			t.Error(err)
		}
	})
}
