package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/takeover"
)

// Verifies that a lock which goes a moment after its holder is waited for, and one that
// stays is not, for longer than a moment.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), runLockName)
		release, err := takeover.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		lock := func() (func() error, error) { return takeover.Lock(path) }
		began := time.Now()
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		if _, err := patiently(logger, lock); !errors.Is(err, takeover.ErrHeld) {
			t.Errorf("the error is %v, want that of a lock that is held", err)
		}
		if took := time.Since(began); took < lockPatience || took > 2*lockPatience {
			t.Errorf("it took %v, want %v", took, lockPatience)
		}
		if text := log.String(); strings.Count(text, "waiting for another agent") != 1 || !strings.Contains(text, fmt.Sprintf("pid %d", os.Getpid())) {
			t.Errorf("the log does not say once who is waited for: %s", text)
		}
		time.AfterFunc(lockPatience/2, func() {
			if err := release(); err != nil {
				t.Error(err)
			}
		})
		again, err := patiently(logger, lock)
		if err != nil {
			t.Fatalf("a lock that is free after a moment: %v", err)
		}
		if err := again(); err != nil {
			t.Error(err)
		}
	})
}

// Verifies that an agent which takes no turns fails at once if the active one stays; that it
// waits, and says so, if that is about to end; and that it gets the post then.
func TestTakeAlone(t *testing.T) {
	dir, err := os.MkdirTemp("", "a") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var log bytes.Buffer
	opts := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	first, _, err := takeAlone(opts, dir)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, _, err := takeAlone(opts, dir); !errors.Is(err, takeover.ErrHeld) || !strings.Contains(err.Error(), "--take-over") {
		t.Errorf("the error is %v, want that of a post that is taken", err)
	}
	if took := time.Since(began); took >= lockPatience || log.Len() > 0 {
		t.Errorf("it took %v to say that the active one stays; log: %s", took, log.String())
	}
	first.Leave()
	time.AfterFunc(lockPatience/4, func() {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
	second, _, err := takeAlone(opts, dir)
	if err != nil || !strings.Contains(log.String(), "waiting for another agent to end") {
		t.Fatalf("an agent that is about to end is not waited for: %v; log: %s", err, log.String())
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
