package mock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// maxScenario bounds a scenario file, in bytes.
	maxScenario = 1 << 20
	// settle is how long a file must be left alone after a change before it is
	// read: a shell's redirection empties it first.
	settle = 30 * time.Millisecond
)

// readScenario reads a scenario file; a missing one is empty. Modified is zero
// for a missing file.
func readScenario(path string) (data []byte, modified time.Time, err error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, time.Time{}, nil
	case err != nil:
		return nil, time.Time{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, errors.New("no regular file")
	}
	data, err = io.ReadAll(io.LimitReader(f, maxScenario+1))
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(data) > maxScenario {
		return nil, time.Time{}, fmt.Errorf("longer than %d bytes", maxScenario)
	}
	return data, info.ModTime(), nil
}

// following is the file that the loop follows, if any. It belongs to the loop.
type following struct {
	path    string
	poll    time.Duration
	changed <-chan struct{} // holds one event; nil if there is no file
	cancel  context.CancelFunc
	done    chan struct{}
}

// follow makes path the file to follow; the same as before is no change.
func (f *following) follow(ctx context.Context, path string, poll time.Duration) {
	if f.path == path && f.poll == poll {
		return
	}
	f.stop()
	*f = following{path: path, poll: poll}
	if path == "" {
		return
	}
	ctx, f.cancel = context.WithCancel(ctx)
	changed, done := make(chan struct{}, 1), make(chan struct{})
	f.changed, f.done = changed, done
	go func() {
		defer close(done)
		w := &follower{path: path, poll: poll, changed: changed}
		w.run(ctx)
	}()
}

// stop waits until nothing is left of it.
func (f *following) stop() {
	if f.cancel != nil {
		f.cancel()
		<-f.done
	}
}

// follower says when the file at path may have changed: after events in its
// directory, which also sees the symlink swap of a mounted ConfigMap, and every
// poll, which sees everything else.
type follower struct {
	path    string
	poll    time.Duration
	changed chan<- struct{}
}

func (f *follower) run(ctx context.Context) {
	dir := filepath.Dir(f.path)
	var events <-chan fsnotify.Event
	var errs <-chan error
	// Without notifications (no inotify instances left) there is the poll.
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = watcher.Close() }() // nothing to be done about it
		events, errs = watcher.Events, watcher.Errors
		_ = watcher.Add(dir) // a directory that is missing is tried again below
	}
	// What changed before the watch began was told to nobody.
	f.signal()
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	quiet := time.NewTimer(never)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			quiet.Reset(settle)
		case err := <-errs: // most likely an overflow: events were lost
			slog.Debug("watch the scenario file", "error", err)
			quiet.Reset(settle)
		case <-quiet.C:
			f.signal()
		case <-tick.C:
			if watcher != nil {
				_ = watcher.Add(dir) // the directory may be a new one
			}
			f.signal()
		}
	}
}

func (f *follower) signal() {
	select {
	case f.changed <- struct{}{}:
	default: // one is waiting already
	}
}
