package config

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The default intervals of a Watcher.
const (
	defaultSettle = 200 * time.Millisecond
	defaultPoll   = 15 * time.Second
)

// Event is what became of the configuration file: a configuration, or why there
// is none: either Err is set or the others are. After an Err the last good
// configuration stays in force; the consumer keeps it.
type Event struct {
	Config *NodeConfig
	// Data is what the file holds.
	Data []byte
	// Err is an Errors, or an error that wraps the system's (fs.ErrNotExist while
	// the file is gone).
	Err error
}

// Options are the settings of a Watcher; the zero value will do.
type Options struct {
	// Known is what the caller knows of the file, by Read. Without it the first
	// event is the state of the file when Run starts.
	Known Event
	// Settle is how long the directory must be quiet before the file is read, so
	// that a file is not read half-written. Default 200ms. A directory that is
	// never quiet delays reading to ten times that.
	Settle time.Duration
	// Poll is how often the file is read without having been announced: file
	// systems without notification, links into other directories, a directory
	// that was replaced. Default 15s.
	Poll time.Duration
	// Log takes what the events do not say. Default slog.Default().
	Log *slog.Logger
}

// Watcher follows a configuration file through everything that happens to
// files: written in place, replaced by a rename, a ConfigMap's switch of its
// ..data link, deleted and created again, alone or with its directory. It
// watches the directory and, more slowly, polls.
type Watcher struct {
	path   string
	opts   Options
	log    *slog.Logger
	events chan Event
	// notify opens a file system watcher; tests make it fail.
	notify func() (*fsnotify.Watcher, error)

	// Of the goroutine in Run.
	fs      *fsnotify.Watcher // nil: poll only
	watched os.FileInfo       // the directory as it was when watched; nil: not watched
	data    []byte            // what was read last; nil: nothing could be
	last    Event             // what was sent last
}

// NewWatcher prepares to watch the file at path, which need not exist.
func NewWatcher(path string, opts Options) *Watcher {
	opts.Settle = cmp.Or(opts.Settle, defaultSettle)
	opts.Poll = cmp.Or(opts.Poll, defaultPoll)
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	return &Watcher{
		path:   filepath.Clean(path),
		opts:   opts,
		log:    opts.Log.With("file", path),
		events: make(chan Event, 1),
		notify: fsnotify.NewWatcher,
		last:   opts.Known,
	}
}

// Events delivers what became of the file, newest only: an event that was not
// received in time is replaced by the next. An event always differs from the
// one before it; a change of the file that leaves the configuration equal is
// none. The channel is closed when Run returns.
func (w *Watcher) Events() <-chan Event { return w.events }

// Run watches until the context ends. It must be called once. Nothing that
// happens to the file, its directory or the notification ends it.
func (w *Watcher) Run(ctx context.Context) {
	defer close(w.events)
	w.open()
	defer w.close()
	w.reload()

	retry := w.opts.Settle
	poll := time.NewTimer(w.pollDelay(&retry))
	defer poll.Stop()
	settle := time.NewTimer(w.opts.Settle)
	settle.Stop()
	defer settle.Stop()
	var firstSeen time.Time // of the events that settle waits for

	for {
		changes, failures := w.channels()
		select {
		case <-ctx.Done():
			return
		case event, ok := <-changes:
			if !ok {
				w.close()
				continue
			}
			if !w.concerns(event) {
				continue
			}
			if firstSeen.IsZero() {
				firstSeen = time.Now()
			}
			if time.Since(firstSeen) < 10*w.opts.Settle {
				settle.Reset(w.opts.Settle)
			}
		case err, ok := <-failures:
			if !ok {
				w.close()
				continue
			}
			// Most likely an overflow: events were lost, so look at the file.
			w.log.Warn("watching the configuration's directory", "err", err)
			settle.Reset(w.opts.Settle)
		case <-settle.C:
			firstSeen = time.Time{}
			if w.ensureWatched(); w.watched == nil {
				poll.Reset(w.pollDelay(&retry))
			}
			w.reload()
		case <-poll.C:
			w.ensureWatched()
			w.reload()
			poll.Reset(w.pollDelay(&retry))
		}
	}
}

// open starts notification. Without it (too many inotify instances on the node,
// a file system that has none) the poll remains.
func (w *Watcher) open() {
	fs, err := w.notify()
	if err != nil {
		w.log.Warn("cannot watch the configuration's directory; the file is polled instead",
			"err", err, "poll", w.opts.Poll)
		return
	}
	w.fs = fs
	w.ensureWatched()
}

func (w *Watcher) close() {
	if w.fs == nil {
		return
	}
	if err := w.fs.Close(); err != nil {
		w.log.Warn("stop watching the configuration's directory", "err", err)
	}
	w.fs, w.watched = nil, nil
}

// channels are those of the file system watcher; without one they are nil and
// never ready.
func (w *Watcher) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.fs == nil {
		return nil, nil
	}
	return w.fs.Events, w.fs.Errors
}

// concerns reports whether an event calls for a look at the file. Which names
// matter depends on how links lead to the file, so all do. A directory that is
// gone has to be watched anew.
func (w *Watcher) concerns(event fsnotify.Event) bool {
	if event.Name == filepath.Dir(w.path) && event.Has(fsnotify.Remove|fsnotify.Rename) {
		w.watched = nil
	}
	return event.Op != fsnotify.Chmod
}

// ensureWatched watches the directory that is at the path now, which may be
// another one than before. A watch follows the directory and not its name.
func (w *Watcher) ensureWatched() {
	if w.fs == nil {
		return
	}
	dir := filepath.Dir(w.path)
	now, err := os.Stat(dir)
	if err == nil && w.watched != nil && os.SameFile(now, w.watched) {
		return
	}
	if w.watched != nil || err == nil {
		// The error says that there was no such watch, which is fine.
		_ = w.fs.Remove(dir)
	}
	w.watched = nil
	if err != nil {
		return // reload reports that the file is not there
	}
	if err := w.fs.Add(dir); err != nil {
		w.log.Debug("watch the configuration's directory", "err", err)
		return
	}
	w.watched = now
}

// pollDelay is the time to the next poll. While a directory that could be
// watched is not, the poll is what finds it again, so it starts fast and backs
// off to the normal interval; retry is the state of that.
func (w *Watcher) pollDelay(retry *time.Duration) time.Duration {
	delay := w.opts.Poll
	if w.fs != nil && w.watched == nil {
		delay = min(*retry, w.opts.Poll)
		*retry = min(2*(*retry), w.opts.Poll)
	} else {
		*retry = w.opts.Settle
	}
	return delay + rand.N(delay/4+1)
}

// reload reads the file and sends an event if there is something new to say.
func (w *Watcher) reload() {
	data, err := readFile(w.path)
	if err == nil && w.data != nil && bytes.Equal(data, w.data) {
		return
	}
	w.data = nil
	event := Event{Err: err}
	if err == nil {
		w.data = data
		event = parsed(w.path, data)
	}
	if sameEvent(event, w.last) {
		return
	}
	w.last = event
	select {
	case <-w.events: // nobody received it in time; this one is newer
	default:
	}
	w.events <- event // there is room: only this goroutine sends
}

func sameEvent(a, b Event) bool {
	if a.Err != nil || b.Err != nil {
		return a.Err != nil && b.Err != nil && a.Err.Error() == b.Err.Error()
	}
	return reflect.DeepEqual(a.Config, b.Config)
}
