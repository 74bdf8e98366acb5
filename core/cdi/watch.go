package cdi

import (
	"context"
	"maps"
	"time"

	"github.com/fsnotify/fsnotify"
)

// eventPause is how long Run waits for a burst of events to end.
const eventPause = 50 * time.Millisecond

// Changed receives after a change of the directory by another process: a file of ours was
// removed or changed, or a foreign one appeared. The next Publish restores ours. The channel
// holds one signal, which [Store.Run] sends.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Run watches the directory until ctx ends. It returns nil: without events of the kernel it
// checks the directory at intervals.
func (s *Store) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.log.Warn("cannot watch the CDI directory, checking it at intervals", "interval", s.opts.Timing.Poll, "error", err)
		watcher = &fsnotify.Watcher{}
	} else {
		defer func() { _ = watcher.Close() }()
	}
	ticker := time.NewTicker(s.opts.Timing.Poll)
	defer ticker.Stop()
	pause := time.NewTimer(0) // check once at the start
	defer pause.Stop()
	for {
		if watcher.Events != nil && len(watcher.WatchList()) == 0 {
			_ = watcher.Add(s.opts.Dir) // removed with its watch; Publish creates it again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			pause.Reset(eventPause)
		case err := <-watcher.Errors:
			s.log.Debug("error of the watch on the CDI directory", "error", err)
			pause.Reset(eventPause)
		case <-ticker.C:
			s.check()
		case <-pause.C:
			s.check()
		}
	}
}

// check sends a signal if the directory differs.
func (s *Store) check() {
	s.mu.Lock()
	differs := s.differs()
	s.mu.Unlock()
	if !differs {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default: // one is pending
	}
}

// differs reports whether the directory is not as the latest Publish left it. The caller holds
// s.mu.
func (s *Store) differs() bool {
	if s.closed || !s.retryAt.IsZero() {
		return false // after a failed write, the next Publish is due anyway
	}
	for _, f := range s.files {
		if !f.intact() {
			return true
		}
	}
	stamps, ok := s.foreignStamps()
	return ok && !maps.Equal(s.foreign, stamps)
}
