package cdi

import (
	"context"
	"maps"
	"time"

	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/wake"
)

// eventPause is how long Run waits for the end of a burst of events.
const eventPause = 50 * time.Millisecond

// Changed receives after a change of the directory by another process: a file of ours was
// removed or changed, or a foreign one appeared. The next Publish restores ours. The channel
// holds one signal, which [Store.Run] sends.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Run watches the directory until ctx ends, and returns nil.
func (s *Store) Run(ctx context.Context) error {
	files := s.opts.Files.Subscribe(filewatch.Options{Dirs: []string{s.opts.Dir}, Settle: eventPause})
	defer files.Close()
	for {
		files.Renew() // a directory that was removed is made again by Publish
		s.check()
		if files.Wait(ctx, s.opts.Timing.Poll) == filewatch.Ended {
			return nil
		}
	}
}

// check sends a signal if the directory differs.
func (s *Store) check() {
	s.mu.Lock()
	differs := s.differs()
	s.mu.Unlock()
	if differs {
		wake.Send(s.changed)
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
