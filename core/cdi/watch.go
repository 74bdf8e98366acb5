package cdi

import (
	"context"
	"maps"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long Run waits for a burst of events to end.
const settle = 50 * time.Millisecond

// Changed tells that somebody changed the directory: removed or changed a file
// of ours, or brought one that is in conflict with it. Publish then puts it
// right. The channel holds one signal, and needs [Store.Run] to get any.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Run watches the directory until ctx ends. It returns nil: where the kernel
// cannot watch, it looks at intervals only.
func (s *Store) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.log.Warn("watch the CDI directory, looking at intervals instead", "interval", s.opts.Timing.Poll, "error", err)
		watcher = &fsnotify.Watcher{}
	} else {
		defer func() { _ = watcher.Close() }()
	}
	ticker := time.NewTicker(s.opts.Timing.Poll)
	defer ticker.Stop()
	pause := time.NewTimer(0) // look once at the start
	defer pause.Stop()
	for {
		if watcher.Events != nil && len(watcher.WatchList()) == 0 {
			_ = watcher.Add(s.opts.Dir) // gone, with its watch; Publish makes it again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			pause.Reset(settle)
		case err := <-watcher.Errors:
			s.log.Debug("watch the CDI directory", "error", err)
			pause.Reset(settle)
		case <-ticker.C:
			s.look()
		case <-pause.C:
			s.look()
		}
	}
}

// look signals if the directory is not as the latest Publish left it.
func (s *Store) look() {
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

func (s *Store) differs() bool {
	if s.closed {
		return false
	}
	for _, f := range s.files {
		if stampOf(f.path()) != f.seen {
			return true
		}
	}
	known := make(map[string]stamp, len(s.foreign))
	for name, f := range s.foreign {
		known[name] = f.stamp
	}
	stamps, ok := s.foreignStamps()
	return ok && !maps.Equal(known, stamps)
}
