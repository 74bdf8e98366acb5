package filewatch

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options are the settings of a Subscription. Dirs is required.
type Options struct {
	// Dirs are the directories, which need not exist.
	Dirs []string
	// Relevant selects events of files in them; nil takes all. That a directory itself is
	// removed is always relevant, and a change of permissions alone never is. It runs in
	// the Watcher's goroutine and must not block.
	Relevant func(fsnotify.Event) bool
	// Settle is how long there must be no further event before Wait returns, so that a
	// file is not read half-written. A directory that is never quiet delays Wait to ten
	// times that. Zero is at once.
	Settle time.Duration
}

// Subscription is one reader's interest in directories. One goroutine at a time may use
// it:
//
//	for {
//		watched := s.Renew()
//		examine() // after Renew, so that no change is missed
//		if s.Wait(ctx, pause) == Ended {
//			return
//		}
//	}
type Subscription struct {
	watcher  *Watcher
	dirs     []string
	relevant func(fsnotify.Event) bool
	settle   time.Duration
	changed  chan struct{}
}

// Subscribe makes a Subscription. It sees events after the first Renew.
func (w *Watcher) Subscribe(o Options) *Subscription {
	s := &Subscription{watcher: w, relevant: o.Relevant, settle: o.Settle, changed: make(chan struct{}, 1)}
	for _, dir := range o.Dirs {
		s.dirs = append(s.dirs, filepath.Clean(dir))
	}
	if s.relevant == nil {
		s.relevant = func(fsnotify.Event) bool { return true }
	}
	if w != nil {
		w.mu.Lock()
		w.subscriptions = append(w.subscriptions, s)
		w.mu.Unlock()
	}
	return s
}

// Close ends the Subscription.
func (s *Subscription) Close() {
	if w := s.watcher; w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.subscriptions = slices.DeleteFunc(w.subscriptions, func(other *Subscription) bool { return other == s })
	}
}

// Renew watches the directories that are at the paths now, and reports whether these are
// all. Until they are, only polls find what happens.
func (s *Subscription) Renew() bool {
	all := true
	for _, dir := range s.dirs {
		all = s.watcher.watch(dir) && all
	}
	return all
}

// Why Wait returned.
const (
	Changed = "event"
	Polled  = "poll"
	Ended   = ""
)

// Wait waits for a change, but no longer than poll, or until ctx ends.
func (s *Subscription) Wait(ctx context.Context, poll time.Duration) (why string) {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return Ended
	case <-timer.C:
		return Polled
	case <-s.changed:
	}
	if s.settle == 0 {
		return Changed
	}
	limit := time.NewTimer(10 * s.settle)
	defer limit.Stop()
	for {
		timer.Reset(s.settle)
		select {
		case <-ctx.Done():
			return Ended
		case <-timer.C:
			return Changed
		case <-limit.C:
			return Changed
		case <-s.changed:
		}
	}
}
