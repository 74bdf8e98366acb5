package mock

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long the loop waits after an event, so that it does not read a file that is
	// being written in place.
	settle = 10 * time.Millisecond
	// unwatchedPoll is how often the scenario file is read where the kernel cannot watch it.
	unwatchedPoll = time.Second
)

// fileWatch watches the directory of the scenario file by inotify(7). A watch of the file itself
// would miss that another one is renamed to its place. It is for one goroutine.
type fileWatch struct {
	watcher *fsnotify.Watcher // nil before there is a file, and where the kernel has no inotify instance left
	failed  bool
	file    string
	dir     os.FileInfo // as it was when its watch began: a watch follows the directory and not its name
}

// renew watches the directory that is at the file's path now, and reports whether it is watched.
// Without a path it watches nothing.
func (w *fileWatch) renew(file string) bool {
	if w.watcher == nil && file != "" && !w.failed {
		var err error
		if w.watcher, err = fsnotify.NewWatcher(); err != nil {
			slog.Warn("the scenario file is polled, because the kernel cannot watch it", "error", err)
			w.watcher, w.failed = nil, true
		}
	}
	if w.watcher == nil {
		return false
	}
	var dir os.FileInfo
	if file != "" {
		dir, _ = os.Stat(filepath.Dir(file)) // nil if there is none
	}
	if file == w.file && dir != nil && w.dir != nil && os.SameFile(dir, w.dir) && len(w.watcher.WatchList()) > 0 {
		return true
	}
	for _, old := range w.watcher.WatchList() {
		_ = w.watcher.Remove(old) // an error is that the watch has ended
	}
	w.file, w.dir = file, nil
	if dir == nil || w.watcher.Add(filepath.Dir(file)) != nil {
		return false
	}
	w.dir = dir
	return true
}

// events returns the kernel's events and errors; an error is that events were lost.
func (w *fileWatch) events() (<-chan fsnotify.Event, <-chan error) {
	if w.watcher == nil {
		return nil, nil
	}
	return w.watcher.Events, w.watcher.Errors
}

// concerns reports whether the scenario may be another one after an event: of the file, of the
// link by which kubelet replaces all files of a ConfigMap, or of the directory itself.
func (w *fileWatch) concerns(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	dir := filepath.Dir(w.file)
	return e.Name == w.file || e.Name == filepath.Join(dir, "..data") || e.Name == dir
}

func (w *fileWatch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close() // there is nothing to lose
	}
}
