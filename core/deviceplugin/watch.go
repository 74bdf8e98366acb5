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
	"github.com/accelmux/accelmux/core/kubeletdir"
)

// stillFailing is the interval at which the log repeats why a resource is not registered.
const stillFailing = 10 * time.Minute

// calmFactor multiplies the poll interval while kubelet's socket exists and its directories
// are watched: then only a file system that is mounted over them causes no event.
const calmFactor = 10

// kubeletWatch watches kubelet's two directories: for a kubelet.sock that is created,
// removed or replaced, and for sockets of this process that are removed. It also polls. A
// poll wakes the goroutine of every resource, so the interval is calmFactor times as long
// while kubelet's socket exists and the directories are watched.
type kubeletWatch struct {
	files  *filewatch.Watcher
	dirs   []string
	socket string
	poll   time.Duration
	// patience is how long kubelet may be absent before that is a problem. report is called
	// when the problem changes.
	patience time.Duration
	report   func(trouble string)
	log      *slog.Logger

	mu      sync.Mutex
	kubelet kubeletdir.FileID
	since   time.Time // when kubelet was set
	trouble string
	changed chan struct{} // closed and replaced at every event and poll
}

func newKubeletWatch(opts Options) *kubeletWatch {
	w := &kubeletWatch{
		files: opts.Files,
		dirs:  []string{opts.Dir, opts.RegistryDir}, socket: filepath.Join(opts.Dir, "kubelet.sock"),
		poll: opts.Timing.Poll, patience: opts.Timing.Patience, report: opts.Trouble,
		log: opts.Log, changed: make(chan struct{}),
	}
	if w.report == nil {
		w.report = func(string) {}
	}
	return w
}

// current returns the ID of kubelet.sock (zero if it does not exist), since when it has been
// so, and a channel that is closed at the next event or poll.
func (w *kubeletWatch) current() (kubelet kubeletdir.FileID, since time.Time, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kubelet, w.since, w.changed
}

func (w *kubeletWatch) run(ctx context.Context) {
	w.mu.Lock()
	w.since = time.Now() // patience is counted from here
	w.mu.Unlock()
	files := w.files.Subscribe(filewatch.Options{Dirs: w.dirs, Relevant: w.relevant})
	defer files.Close()
	absent := false
	for by := filewatch.Polled; by != filewatch.Ended; {
		watched := files.Renew()
		w.check(by)
		kubelet, _, _ := w.current()
		if kubelet == (kubeletdir.FileID{}) && !absent {
			w.log.Info("waiting for kubelet: its registration socket does not exist", "socket", w.socket)
		}
		absent = kubelet == kubeletdir.FileID{}
		pause := w.poll
		if watched && kubelet != (kubeletdir.FileID{}) {
			pause *= calmFactor
		}
		by = files.Wait(ctx, pause)
	}
}

// relevant excludes the events of kubelet's own files, which it writes often.
func (w *kubeletWatch) relevant(event fsnotify.Event) bool {
	ours := strings.HasPrefix(filepath.Base(event.Name), socketPrefix)
	return event.Name == w.socket || ours && event.Has(fsnotify.Remove|fsnotify.Rename)
}

// check reads the state of kubelet.sock and wakes those who wait on changed. by is what led to
// it, for the log.
func (w *kubeletWatch) check(by string) {
	id := kubeletdir.Identify(w.socket)
	w.mu.Lock()
	came := id != w.kubelet && id != kubeletdir.FileID{}
	if id != w.kubelet {
		w.kubelet, w.since = id, time.Now()
	}
	before := w.trouble
	w.trouble = ""
	if id == (kubeletdir.FileID{}) && time.Since(w.since) >= w.patience {
		w.trouble = w.diagnose()
	}
	now := w.trouble
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	if came {
		w.log.Debug("kubelet's registration socket exists", "socket", w.socket, "noticed_by", by)
	}
	if now != before {
		w.report(now)
	}
}

// diagnose returns what is missing and what to check if there is no kubelet.sock.
func (w *kubeletWatch) diagnose() string {
	if kubeletdir.Identify(w.dirs[0]) == (kubeletdir.FileID{}) {
		return noDirectory(w.dirs[0])
	}
	return "kubelet's socket " + w.socket + " does not exist: does kubelet run, and is --kubelet-dir right?" + fixedPlace(w.dirs[0])
}

// noDirectory returns the problem that one of kubelet's directories is missing.
func noDirectory(dir string) string {
	flag, hint := "--kubelet-dir", fixedPlace(dir)
	if filepath.Base(dir) == "plugins_registry" {
		flag, hint = "--kubelet-root-dir", ""
	}
	return "kubelet's directory " + dir + " does not exist: is it mounted here, and is " + flag + " right?" + hint
}

// fixedPlace returns where kubelet has device-plugins, unless it is this directory: --kubelet-dir may be its
// root directory, which only the other directories are in.
func fixedPlace(dir string) string {
	if filepath.Dir(dir) == kubeletdir.Default {
		return ""
	}
	return " With any --root-dir, kubelet has device-plugins in " + kubeletdir.Default
}
