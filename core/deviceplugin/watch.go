package deviceplugin

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/accelmux/accelmux/core/filewatch"
)

// stillAbsent is how often the log says that kubelet is still not there.
const stillAbsent = 10 * time.Minute

// calmFactor is how much longer the poll interval is while kubelet is there and its
// directories are watched: then only a file system that is mounted over them has no event.
const calmFactor = 10

// kubeletWatch watches kubelet's two directories: for a kubelet.sock that appears,
// disappears or is replaced, and for sockets of ours that are removed. Between events it
// polls: each poll wakes the process for every resource, so while kubelet is there and
// its directories are watched, the interval is calmFactor times as long.
type kubeletWatch struct {
	files  *filewatch.Watcher
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
		files: opts.Files,
		dirs:  []string{opts.Dir, opts.RegistryDir}, socket: filepath.Join(opts.Dir, "kubelet.sock"),
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
	files := w.files.Subscribe(filewatch.Options{Dirs: w.dirs, Relevant: w.relevant})
	defer files.Close()
	var absent absence
	for by := filewatch.Polled; by != filewatch.Ended; {
		watched := files.Renew()
		w.look(by)
		kubelet, _, _ := w.current()
		absent.note(w.log, w.socket, kubelet == fileID{})
		pause := w.poll
		if watched && kubelet != (fileID{}) {
			pause *= calmFactor
		}
		by = files.Wait(ctx, pause)
	}
}

// relevant leaves out what kubelet writes in its directories all the time.
func (w *kubeletWatch) relevant(event fsnotify.Event) bool {
	ours := strings.HasPrefix(filepath.Base(event.Name), socketPrefix)
	return event.Name == w.socket || ours && event.Has(fsnotify.Remove|fsnotify.Rename)
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
