package config

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/test/patience"
)

const (
	good  = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: one, backends: [{name: mock}]}]\n"
	other = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: two, backends: [{name: mock}]}]\n"
	third = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: three, backends: [{name: mock}]}]\n"
	bad   = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: []\n"
)

// notified polls so seldom that a test which passes was served by notification.
var notified = Options{Settle: 5 * time.Millisecond, Poll: time.Hour}

// watching runs a Watcher on path until the test ends.
func watching(t *testing.T, path string, opts Options) *Watcher {
	t.Helper()
	opts.Files = filewatch.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { must(t, opts.Files.Close()) })
	w := NewWatcher(path, opts)
	run(t, w)
	return w
}

func run(t *testing.T, w *Watcher) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		for range w.Events() { // ends, because Run closed it
		}
	})
}

// next waits for an event.
func next(t *testing.T, w *Watcher) Event {
	t.Helper()
	select {
	case e := <-w.Events():
		return e
	case <-time.After(patience.Long):
		t.Fatalf("no event within %v", patience.Long)
		return Event{}
	}
}

// wantProfile waits until the configuration with that profile is in force.
// What came in between (a file seen while it was away) is allowed.
func wantProfile(t *testing.T, w *Watcher, name string) {
	t.Helper()
	for {
		e := next(t, w)
		if e.Err == nil && e.Config.Profiles[0].Name == name {
			return
		}
		if e.Err == nil {
			t.Fatalf("profile %s is in force, want %s", e.Config.Profiles[0].Name, name)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatchConfigMap verifies the switch of links with which kubelet updates a
// mounted ConfigMap: the file itself is a link that never changes.
func TestWatchConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "node.yaml"), text)
		must(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", good)
	path := filepath.Join(dir, "node.yaml")
	must(t, os.Symlink(filepath.Join("..data", "node.yaml"), path))
	w := watching(t, path, notified)
	wantProfile(t, w, "one")
	version("..2", other)
	must(t, os.RemoveAll(filepath.Join(dir, "..1")))
	wantProfile(t, w, "two")
	version("..3", third)
	wantProfile(t, w, "three")
}

// TestWatchBadFile verifies that mistakes are events, that the file going away
// is one, and that coming back to what was good before is one as well.
func TestWatchBadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	write(t, path, good)
	w := watching(t, path, notified)
	wantProfile(t, w, "one")

	write(t, path, bad)
	e := next(t, w)
	if want := path + ":3:1: profiles: at least one profile is required"; e.Config != nil || e.Err == nil || !strings.Contains(e.Err.Error(), want) {
		// The file may have been seen while it was empty.
		if e = next(t, w); e.Config != nil || e.Err == nil || e.Err.Error() != want {
			t.Fatalf("event %+v, want %s", e, want)
		}
	}
	write(t, path, good)
	wantProfile(t, w, "one")

	must(t, os.Remove(path))
	for e = next(t, w); !errors.Is(e.Err, fs.ErrNotExist); e = next(t, w) {
		if e.Err == nil {
			t.Fatalf("event %+v for a file that was removed", e)
		}
	}
	write(t, path, other)
	wantProfile(t, w, "two")
}

// TestWatchEqual verifies that what the caller has loaded, and a change that
// means the same, are no events.
func TestWatchEqual(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	write(t, path, good)
	current, err := Load(path)
	must(t, err)
	opts := notified
	opts.Known = Event{Config: current}
	w := watching(t, path, opts)
	replace := func(text string) {
		write(t, path+".tmp", text)
		must(t, os.Rename(path+".tmp", path))
	}
	replace("# a comment\n" + good)
	replace(good)
	replace(other)
	// The first event there is.
	if e := next(t, w); e.Err != nil || e.Config.Profiles[0].Name != "two" {
		t.Errorf("event %+v, want the profile two", e)
	}
}

// TestWatchNewestWins verifies that a consumer that was away finds only the
// latest state.
func TestWatchNewestWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	w := NewWatcher(path, Options{})
	for _, text := range []string{good, other, bad, third} {
		write(t, path, text)
		w.reload()
	}
	if e := <-w.Events(); e.Err != nil || e.Config.Profiles[0].Name != "three" {
		t.Errorf("event %+v, want the profile three", e)
	}
	select {
	case e := <-w.Events():
		t.Errorf("another event: %+v", e)
	default:
	}
}

// TestWatchWithoutNotification verifies that polling alone finds every change,
// also one in the directory that a link leads to.
func TestWatchWithoutNotification(t *testing.T) {
	real := filepath.Join(t.TempDir(), "real.yaml")
	path := filepath.Join(t.TempDir(), "node.yaml")
	must(t, os.Symlink(real, path))
	w := NewWatcher(path, Options{Settle: time.Millisecond, Poll: 5 * time.Millisecond})
	run(t, w)
	if e := next(t, w); !errors.Is(e.Err, fs.ErrNotExist) {
		t.Fatalf("event %+v for a file that is not there yet", e)
	}
	write(t, real, good)
	wantProfile(t, w, "one")
	write(t, real, other)
	wantProfile(t, w, "two")
}

// TestWatchLateDirectory verifies that a directory that comes later, or comes
// back after a while, is found without waiting for the slow poll.
func TestWatchLateDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "node.yaml")
	w := watching(t, path, notified)
	if e := next(t, w); !errors.Is(e.Err, fs.ErrNotExist) {
		t.Fatalf("event %+v without a directory", e)
	}
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	write(t, path, good)
	wantProfile(t, w, "one")

	must(t, os.RemoveAll(filepath.Dir(path)))
	if e := next(t, w); !errors.Is(e.Err, fs.ErrNotExist) {
		t.Fatalf("event %+v after the directory was deleted", e)
	}
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	write(t, path, other)
	wantProfile(t, w, "two")
}
