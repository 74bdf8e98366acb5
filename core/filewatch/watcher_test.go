package filewatch_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/filewatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newWatcher makes a Watcher that ends with the test.
func newWatcher(t *testing.T) *filewatch.Watcher {
	t.Helper()
	w := filewatch.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { must(t, w.Close()) })
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
}

// wantChange waits for a change, and wants no poll instead.
func wantChange(t *testing.T, s *filewatch.Subscription) {
	t.Helper()
	if why := s.Wait(t.Context(), time.Minute); why != filewatch.Changed {
		t.Fatalf("Wait returned %q, want a change", why)
	}
}

// wantNone wants that nothing announces a change. What was distributed before has been:
// another Subscription has seen it.
func wantNone(t *testing.T, s *filewatch.Subscription) {
	t.Helper()
	if why := s.Wait(t.Context(), 0); why != filewatch.Polled {
		t.Fatalf("Wait returned %q, want a poll", why)
	}
}

// Verifies that each Subscription gets the changes of its own directories that are
// relevant to it, and that a change between Renew and Wait is not lost.
func TestChanges(t *testing.T) {
	w, a, b := newWatcher(t), t.TempDir(), t.TempDir()
	all := w.Subscribe(filewatch.Options{Dirs: []string{a, b}})
	defer all.Close()
	some := w.Subscribe(filewatch.Options{Dirs: []string{a + "/"}, Relevant: func(e fsnotify.Event) bool { return e.Name == filepath.Join(a, "this") }})
	defer some.Close()
	if !all.Renew() || !some.Renew() {
		t.Fatal("directories that exist are not watched")
	}
	write(t, b, "this")
	wantChange(t, all)
	wantNone(t, some)
	write(t, a, "other")
	wantChange(t, all)
	wantNone(t, some)
	write(t, a, "this")
	wantChange(t, some)
}

// Verifies that a directory that appears, is replaced or is reached by another link is
// watched after Renew, and that the removal of the old one is announced.
func TestDirectories(t *testing.T) {
	w, top := newWatcher(t), t.TempDir()
	dir := filepath.Join(top, "dir")
	s := w.Subscribe(filewatch.Options{Dirs: []string{dir}})
	defer s.Close()
	renewed := func() {
		t.Helper()
		if !s.Renew() {
			t.Fatal("the directory is not watched")
		}
		for s.Wait(t.Context(), 0) == filewatch.Changed { // what is left of the old one
		}
		write(t, dir, "file")
		wantChange(t, s)
	}
	if s.Renew() {
		t.Error("a directory that does not exist is watched")
	}
	must(t, os.Mkdir(dir, 0o700))
	renewed()

	must(t, os.RemoveAll(dir))
	wantChange(t, s)
	must(t, os.Mkdir(dir, 0o700))
	renewed()

	must(t, os.Rename(dir, dir+".old"))
	must(t, os.Mkdir(dir, 0o700))
	renewed()

	must(t, os.RemoveAll(dir))
	must(t, os.Symlink(dir+".old", dir))
	renewed()
	must(t, os.Mkdir(dir+".new", 0o700))
	must(t, os.Remove(dir))
	must(t, os.Symlink(dir+".new", dir))
	renewed()
}

// Verifies that Wait returns after a burst, also if the burst does not end, at the poll,
// and with the context.
func TestSettle(t *testing.T) {
	w, dir := newWatcher(t), t.TempDir()
	s := w.Subscribe(filewatch.Options{Dirs: []string{dir}, Settle: 20 * time.Millisecond})
	defer s.Close()
	s.Renew()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = os.WriteFile(filepath.Join(dir, "noise"), nil, 0o600)
			}
		}
	}()
	wantChange(t, s)
	close(stop)
	<-done
	none := (*filewatch.Watcher)(nil).Subscribe(filewatch.Options{Dirs: []string{dir}})
	defer none.Close()
	if none.Renew() || none.Wait(t.Context(), time.Millisecond) != filewatch.Polled {
		t.Error("without a Watcher, something else than the poll ends Wait")
	}
}
