package config

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"reflect"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/filewatch"
)

// The default intervals of a Watcher.
const (
	defaultSettle = 200 * time.Millisecond
	defaultPoll   = 15 * time.Second
)

// Event is a new state of the configuration file: either Err is set, or the other fields are.
// After an Err the consumer keeps the last valid configuration in force.
type Event struct {
	Config *NodeConfig
	// Data is the file's content.
	Data []byte
	// Err is an Errors, or an error that wraps the system's (fs.ErrNotExist while
	// the file is gone).
	Err error
}

// Options are the settings of a Watcher; the zero value has the defaults.
type Options struct {
	// Known is the file's state as Read returned it to the caller: only later changes are
	// events. Without it the first event is the file's state when Run starts.
	Known Event
	// Settle is how long the directory must be without changes before the file is read, so
	// that it is not read half-written. Default 200ms. A directory that always changes delays
	// the read by at most ten times that.
	Settle time.Duration
	// Poll is how often the file is read without a notification, for file systems without
	// inotify, links into other directories and replaced directories. Default 15s.
	Poll time.Duration
	// Files delivers notifications of changes; nil to poll only.
	Files *filewatch.Watcher
}

// Watcher watches a configuration file. It notices writes in place, replacement by a rename, a
// ConfigMap's new ..data link, and deletion and creation, of the file alone or with its
// directory.
type Watcher struct {
	path   string
	opts   Options
	events chan Event

	// Of the goroutine in Run.
	data []byte // content at the last read; nil if it failed
	last Event  // the last event sent
}

// NewWatcher returns a Watcher for the file at path, which need not exist.
func NewWatcher(path string, opts Options) *Watcher {
	opts.Settle = cmp.Or(opts.Settle, defaultSettle)
	opts.Poll = cmp.Or(opts.Poll, defaultPoll)
	return &Watcher{
		path:   filepath.Clean(path),
		opts:   opts,
		events: make(chan Event, 1),
		last:   opts.Known,
	}
}

// Events delivers the newest event: one that is not received is replaced by the next. Each
// event differs from the one before; a change of the file that does not change the
// configuration is no event. The channel is closed when Run returns.
func (w *Watcher) Events() <-chan Event { return w.events }

// Run watches until ctx ends. It must be called once. No error of the file, its directory or
// the notifications ends it.
func (w *Watcher) Run(ctx context.Context) {
	defer close(w.events)
	// Any name in the directory may matter: links may lead to the file.
	files := w.opts.Files.Subscribe(filewatch.Options{Dirs: []string{filepath.Dir(w.path)}, Settle: w.opts.Settle})
	defer files.Close()
	unwatched := 0
	for {
		unwatched++
		if w.opts.Files == nil || files.Renew() {
			unwatched = 0
		}
		w.reload()
		// A directory that does not exist cannot be watched: only polls find it, so these
		// begin at a short interval.
		pause := backoff.Jitter(w.opts.Poll)
		if unwatched > 0 {
			pause = backoff.After(unwatched, w.opts.Settle, w.opts.Poll)
		}
		if files.Wait(ctx, pause) == filewatch.Ended {
			return
		}
	}
}

// reload reads the file, and sends an event if it differs from the last one.
func (w *Watcher) reload() {
	data, err := ReadFile(w.path)
	if err == nil && w.data != nil && bytes.Equal(data, w.data) {
		return
	}
	w.data = nil
	event := Event{Err: err}
	if err == nil {
		w.data = data
		event = eventOf(w.path, data)
	}
	if sameEvent(event, w.last) {
		return
	}
	w.last = event
	select {
	case <-w.events: // not received; the new event replaces it
	default:
	}
	w.events <- event // does not block: only this goroutine sends
}

func sameEvent(a, b Event) bool {
	if a.Err != nil || b.Err != nil {
		return a.Err != nil && b.Err != nil && a.Err.Error() == b.Err.Error()
	}
	return reflect.DeepEqual(a.Config, b.Config)
}
