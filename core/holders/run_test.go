package holders

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// start runs the book until the test ends.
func start(t *testing.T, b *Book) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Verifies that a full disk is a problem, which loses no allocation, and that the file is
// written when the disk has room again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		opts := options(t, k)
		opts.Path = filepath.Join(dir, "usage")
		full := errors.New("no space left on device")
		var room atomic.Bool
		opts.Disk.Before = func(op checkpoint.Op, _ string) error {
			if !room.Load() && op == checkpoint.OpWrite {
				return full
			}
			return nil
		}
		b := open(t, k, opts)
		stop := start(t, b)
		allocate(t, b, "a")
		<-time.After(time.Hour)
		synctest.Wait()
		if notes := b.Notes(); len(notes) != 1 || !strings.Contains(notes[0], full.Error()) || !b.Held(key("a")) {
			t.Errorf("notes %q", notes)
		}
		room.Store(true)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if s, err := readState(opts.Path); err != nil || len(s.Holds) != 1 || b.Notes() != nil {
			t.Errorf("%v, %v, notes %q", s, err, b.Notes())
		}
		stop()
		room.Store(false)
		allocate(t, b, "b")
		if err := b.Close(); !errors.Is(err, full) {
			t.Errorf("Close gives %v", err)
		}
	})
}

// The first allocation is on disk at once; those that follow closely go together.
func TestRunWritesNowAndThen(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		opts := options(t, k)
		opts.Path = filepath.Join(dir, "usage")
		b := open(t, k, opts)
		stop := start(t, b)
		defer stop()
		onDisk := func() int {
			t.Helper()
			synctest.Wait()
			s, err := readState(opts.Path)
			must(t, err)
			return len(s.Holds)
		}
		allocate(t, b, "a")
		if n := onDisk(); n != 1 {
			t.Errorf("%d holds are on disk right after the first allocation", n)
		}
		for _, u := range []string{"b", "c", "d"} {
			allocate(t, b, u)
			if n := onDisk(); n != 1 {
				t.Errorf("the file was written for %s alone, %d holds are on disk", u, n)
			}
		}
		<-time.After(b.opts.Timing.Write)
		if n := onDisk(); n != 4 {
			t.Errorf("%d of 4 holds are on disk after the pause", n)
		}
	})
}
