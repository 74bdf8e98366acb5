// Package filewatch notices changes of files in directories, for the whole process by
// one inotify instance (inotify(7)).
//
// It is level-triggered: a change is a hint to examine the directory again, never what
// happened there. Everything that inotify misses (file systems without notification,
// a lost event, a directory that is mounted over) is found by the subscriber's poll.
package filewatch

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/accelmux/accelmux/core/wake"
)

// Watcher distributes the kernel's events to Subscriptions. Its methods are safe for
// concurrent use, also those of a nil Watcher, whose Subscriptions only poll.
type Watcher struct {
	fs   *fsnotify.Watcher
	log  *slog.Logger
	done chan struct{}

	mu sync.Mutex
	// watched are the directories as they were when their watches began: a watch
	// follows the directory and not its name.
	watched       map[string]os.FileInfo
	subscriptions []*Subscription
}

// New makes a Watcher, which runs until Close. Where the kernel has no inotify instance
// left, that is logged, and the Watcher is nil.
func New(log *slog.Logger) *Watcher {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("files are polled, because the kernel cannot watch them", "error", err)
		return nil
	}
	w := &Watcher{fs: fs, log: log, done: make(chan struct{}), watched: map[string]os.FileInfo{}}
	go w.run()
	return w
}

// Close ends the Watcher. Its Subscriptions go on with polls.
func (w *Watcher) Close() error {
	if w == nil {
		return nil
	}
	err := w.fs.Close() // twice is no error
	<-w.done
	return err
}

// run distributes events until the Watcher is closed.
func (w *Watcher) run() {
	defer close(w.done)
	for {
		select {
		case event, ok := <-w.fs.Events:
			if !ok {
				return
			}
			w.distribute(event)
		case err, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.log.Debug("file events were lost", "error", err) // an overflow
			w.mu.Lock()
			for _, s := range w.subscriptions {
				wake.Send(s.changed)
			}
			w.mu.Unlock()
		}
	}
}

func (w *Watcher) distribute(event fsnotify.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, itself := w.watched[event.Name]
	if itself && event.Has(fsnotify.Remove|fsnotify.Rename) {
		delete(w.watched, event.Name)
	}
	for _, s := range w.subscriptions {
		own := itself && slices.Contains(s.dirs, event.Name)
		if own || slices.Contains(s.dirs, filepath.Dir(event.Name)) && event.Op != fsnotify.Chmod && s.relevant(event) {
			wake.Send(s.changed)
		}
	}
}

// watch watches the directory that is at the path now, and reports whether there is one
// that can be watched.
func (w *Watcher) watch(dir string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := os.Stat(dir)
	before := w.watched[dir]
	if err == nil && before != nil && os.SameFile(now, before) && slices.Contains(w.fs.WatchList(), dir) {
		return true
	}
	_ = w.fs.Remove(dir) // an error is that there was no watch
	delete(w.watched, dir)
	if err != nil || w.fs.Add(dir) != nil {
		return false
	}
	w.watched[dir] = now
	return true
}
