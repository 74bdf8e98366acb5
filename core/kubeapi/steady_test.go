package kubeapi_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/profile"
)

// Verifies that in steady state the API server gets no request of an agent but the
// watch, which is renewed every 5 to 10 minutes: over a day of everything that
// asks it, with one change of the labels and one Event.
func TestSteadyState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewInBubble(t, "node-1", map[string]string{"a": "b"})
		client := server.Client(t)
		watcher := profile.NewWatcher(profile.WatcherOptions{Nodes: client.NodeMetadata("node-1"), Node: "node-1", Memory: profile.OpenMemory(profile.MemoryOptions{
			Path: filepath.Join(t.TempDir(), "profile"), Node: "node-1", Log: slog.New(slog.DiscardHandler),
		})})
		recorder := events.New(events.Options{Client: client, Node: "node-1"})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for _, run := range []func(context.Context) error{watcher.Run, recorder.Run} {
			running.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		day := func(what string, created int) {
			t.Helper()
			watches := server.Requests("watch")
			<-time.After(24 * time.Hour)
			synctest.Wait()
			if got := server.Requests("watch") - watches; got < 24*6 || got > 24*12+1 {
				t.Errorf("%s: %d watches within a day, want one every 5 to 10 minutes", what, got)
			}
			if got := server.Requests("create"); got != created || server.Requests("patch") != 0 {
				t.Errorf("%s: %d Events created, %d patched, want %d created", what, got, server.Requests("patch"), created)
			}
			if !watcher.Watching() || server.Watching() != 1 {
				t.Errorf("%s: %d watches run", what, server.Watching())
			}
		}
		day("nothing happens", 0)
		server.SetLabels(map[string]string{"a": "c"})
		synctest.Wait()
		if watcher.Labels()["a"] != "c" {
			t.Error("the change is not seen at once")
		}
		recorder.Record(events.ProfileApplied, "profile c is applied")
		day("one change", 1)
	})
}
