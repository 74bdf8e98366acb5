package profile_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/profile"
)

// many is how many agents come at once.
const many = 200

// crowd runs many watchers that share one Node and what is remembered of it.
func crowd(t *testing.T, server *nodes, path string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range many {
		w := profile.Open(profile.Options{Nodes: server, Node: nodeName, Path: path})
		running.Go(func() { _ = w.Run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// most is the most requests within a second, and how long all took.
func (n *nodes) most(since time.Time) (within int, all time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.SortFunc(n.calls, time.Time.Compare)
	first := 0
	for i, at := range n.calls {
		for at.Sub(n.calls[first]) >= time.Second {
			first++
		}
		within, all = max(within, i-first+1), at.Sub(since)
	}
	return within, all
}

// Verifies that agents that all come at once are spread over 10 s where their
// labels are remembered, after an upgrade of theirs and after a restart of the API
// server, and that a node without labels waits for no more than 1 s.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nodes{labels: labels("gpu")}
		path := filepath.Join(t.TempDir(), "selection")
		check := func(what string, mostWithin int, limit time.Duration) {
			t.Helper()
			start := time.Now()
			<-time.After(time.Minute)
			synctest.Wait()
			if got := server.count(); got != many {
				t.Errorf("%s: %d requests of %d agents", what, got, many)
			}
			if within, all := server.most(start); within > mostWithin || all > limit {
				t.Errorf("%s: %d requests within a second, all within %v; want %d and %v", what, within, all, mostWithin, limit)
			}
		}
		stop := crowd(t, server, path)
		check("labels unknown", many, time.Second)
		stop()
		server.set(func(*nodes) {})
		stop = crowd(t, server, path)
		defer stop()
		check("labels remembered", many/4, 10*time.Second)
		server.set(func(*nodes) {}) // cuts the watches
		check("watches lost", many/4, 10*time.Second)
	})
}

// Verifies that a server that has too much to do is asked again when it says.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nodes{labels: labels("gpu"), delay: 30}
		w, _ := start(t, profile.Options{Nodes: server, Node: nodeName, Path: filepath.Join(t.TempDir(), "selection")})
		<-time.After(30 * time.Second)
		if notes := strings.Join(w.Notes(), ""); server.count() != 1 || !strings.Contains(notes, "too much to do") {
			t.Errorf("%d requests in 30 s, notes %q", server.count(), notes)
		}
		server.set(func(n *nodes) { n.delay = 0 })
		<-time.After(3 * time.Second)
		synctest.Wait()
		if w.Labels() == nil || len(w.Notes()) > 0 {
			t.Errorf("labels %v, notes %q", w.Labels(), w.Notes())
		}
	})
}
