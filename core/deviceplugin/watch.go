package deviceplugin

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// stillAbsent is how often the log says that kubelet is still not there.
const stillAbsent = 10 * time.Minute

// calmFactor is how much longer the poll interval is while kubelet is there and its
// directories are watched: then an event tells of all but a file system that is mounted
// over them.
const calmFactor = 10

// kubeletWatch watches kubelet's two directories: for a kubelet.sock that comes,
// goes or is another one, and for sockets of ours that vanish. Events make it
// fast; a look every poll interval makes it right, also when a directory is
// removed and made again, or when events cannot be had at all. While neither is so, a
// look every calmFactor intervals does: each wakes the process for every resource.
type kubeletWatch struct {
	dirs   []string
	socket string
	poll   time.Duration
	// patience is how long kubelet may be absent before that is trouble, which tell
	// is told of.
	patience time.Duration
	tell     func(trouble string)
	log      *slog.Logger

	mu      sync.Mutex
	kubelet fileID
	since   time.Time // when kubelet got this value
	trouble string
	changed chan struct{} // closed and replaced at every event and poll
}

func newKubeletWatch(opts Options) *kubeletWatch {
	w := &kubeletWatch{
		dirs: []string{opts.Dir, opts.RegistryDir}, socket: filepath.Join(opts.Dir, "kubelet.sock"),
		poll: opts.Timing.Poll, patience: opts.Timing.Patience, tell: opts.Trouble,
		log: opts.Log, changed: make(chan struct{}),
	}
	if w.tell == nil {
		w.tell = func(string) {}
	}
	return w
}

// current is which kubelet.sock there is (zero: none), since when, and a channel
// that is closed when it is time to look again.
func (w *kubeletWatch) current() (kubelet fileID, since time.Time, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kubelet, w.since, w.changed
}

func (w *kubeletWatch) run(ctx context.Context) {
	w.mu.Lock()
	w.since = time.Now() // patience begins
	w.mu.Unlock()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("no file events, kubelet's restarts are noticed by looking", "every", w.poll, "error", err)
		watcher = &fsnotify.Watcher{} // nil channels: never ready
	} else {
		defer func() { _ = watcher.Close() }()
	}
	timer := time.NewTimer(w.poll)
	defer timer.Stop()
	watched := make([]fileID, len(w.dirs))
	var absent absence
	by := byLook
	for {
		pause := w.poll
		calm := w.follow(watcher, watched)
		w.look(by)
		kubelet, _, _ := w.current()
		absent.note(w.log, w.socket, kubelet == fileID{})
		if calm && kubelet != (fileID{}) {
			pause *= calmFactor
		}
		timer.Reset(pause)
		if by = w.wait(ctx, watcher, timer); by == "" {
			return
		}
	}
}

// follow watches the directories that are there; watched are those that are watched, and
// it reports whether these are all.
func (w *kubeletWatch) follow(watcher *fsnotify.Watcher, watched []fileID) (all bool) {
	if watcher.Events == nil {
		return false
	}
	// A directory that was made again is another one, and may yet have the number of the
	// old one: that one's watch is dead, and gone from the list.
	alive := watcher.WatchList()
	all = true
	for i, dir := range w.dirs {
		id := identify(dir)
		if id.inode != watched[i].inode || id.device != watched[i].device || !slices.Contains(alive, dir) {
			watched[i] = fileID{}
			if id != (fileID{}) && watcher.Add(dir) == nil {
				watched[i] = id
			}
		}
		all = all && watched[i] != fileID{}
	}
	return all
}

// What has kubelet's directories looked at.
const (
	byEvent = "event"
	byLook  = "poll"
)

// wait returns when there is something to look at, and by what it knows; "" at the end.
func (w *kubeletWatch) wait(ctx context.Context, watcher *fsnotify.Watcher, timer *time.Timer) (by string) {
	for {
		select {
		case event, ok := <-watcher.Events:
			// Kubelet writes its checkpoint here all the time.
			name := filepath.Base(event.Name)
			ours := strings.HasPrefix(name, socketPrefix)
			if !ok || event.Name == w.socket || ours && event.Has(fsnotify.Remove|fsnotify.Rename) ||
				event.Name == w.dirs[0] || event.Name == w.dirs[1] {
				return byEvent
			}
		case err := <-watcher.Errors:
			// An overflow: look at once.
			w.log.Debug("file events were lost", "error", err)
			return byEvent
		case <-timer.C:
			return byLook
		case <-ctx.Done():
			return ""
		}
	}
}

func (w *kubeletWatch) look(by string) {
	id := identify(w.socket)
	w.mu.Lock()
	came := id != w.kubelet && id != fileID{}
	if id != w.kubelet {
		w.kubelet, w.since = id, time.Now()
	}
	before := w.trouble
	w.trouble = ""
	if id == (fileID{}) && time.Since(w.since) >= w.patience {
		w.trouble = w.diagnose()
	}
	now := w.trouble
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	if came {
		w.log.Debug("kubelet's registration socket is there", "socket", w.socket, "noticed_by", by)
	}
	if now != before {
		w.tell(now)
	}
}

// diagnose says what may be wrong where there is no kubelet.
func (w *kubeletWatch) diagnose() string {
	if identify(w.dirs[0]) == (fileID{}) {
		return noDirectory(w.dirs[0])
	}
	return "kubelet's socket " + w.socket + " does not exist: does kubelet run, and is --kubelet-dir right?"
}

// absence logs that kubelet is missing: once, and rarely again.
type absence struct{ logged time.Time }

func (a *absence) note(log *slog.Logger, socket string, absent bool) {
	switch {
	case !absent:
		a.logged = time.Time{}
	case time.Since(a.logged) > stillAbsent:
		a.logged = time.Now()
		log.Info("waiting for kubelet: its registration socket does not exist", "socket", socket)
	}
}

// noDirectory says that one of kubelet's directories is missing.
func noDirectory(dir string) string {
	return "kubelet's directory " + dir + " does not exist: is it mounted here, and is --kubelet-dir right?"
}
