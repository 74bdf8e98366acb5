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
	// Files announces changes; nil for none but the polls'.
	Files *filewatch.Watcher
}

// Watcher follows a configuration file through everything that happens to
// files: written in place, replaced by a rename, a ConfigMap's switch of its
// ..data link, deleted and created again, alone or with its directory.
type Watcher struct {
	path   string
	opts   Options
	events chan Event

	// Of the goroutine in Run.
	data []byte // what was read last; nil: nothing could be
	last Event  // what was sent last
}

// NewWatcher prepares to watch the file at path, which need not exist.
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

// Events delivers what became of the file, newest only: an event that was not
// received in time is replaced by the next. An event always differs from the
// one before it; a change of the file that leaves the configuration equal is
// none. The channel is closed when Run returns.
func (w *Watcher) Events() <-chan Event { return w.events }

// Run watches until the context ends. It must be called once. Nothing that
// happens to the file, its directory or the notification ends it.
func (w *Watcher) Run(ctx context.Context) {
	defer close(w.events)
	// Which names matter depends on how links lead to the file, so all do.
	files := w.opts.Files.Subscribe(filewatch.Options{Dirs: []string{filepath.Dir(w.path)}, Settle: w.opts.Settle})
	defer files.Close()
	unwatched := 0
	for {
		unwatched++
		if w.opts.Files == nil || files.Renew() {
			unwatched = 0
		}
		w.reload()
		// While the directory could be watched but does not exist, the poll is what finds
		// it, so it begins fast.
		pause := backoff.Jitter(w.opts.Poll)
		if unwatched > 0 {
			pause = backoff.After(unwatched, w.opts.Settle, w.opts.Poll)
		}
		if files.Wait(ctx, pause) == filewatch.Ended {
			return
		}
	}
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
