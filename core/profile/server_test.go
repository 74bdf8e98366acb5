package profile_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/test/patience"
)

const (
	nodeName = "node-1"
)

// quick are intervals for tests against a server.
var quick = profile.Timing{
	Start: time.Millisecond, Spread: time.Millisecond, Backoff: 5 * time.Millisecond, BackoffLimit: 50 * time.Millisecond,
}

// start runs a watcher until the test ends, or until the returned function.
func start(t *testing.T, opts profile.Options) (*profile.Watcher, func()) {
	t.Helper()
	w := profile.Open(opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the watcher ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return w, stop
}

func wantLabels(t *testing.T, w *profile.Watcher, want map[string]string) {
	t.Helper()
	patience.Until(t, fmt.Sprintf("labels %v", want), func() bool {
		got := w.Labels()
		return got != nil && maps.Equal(got, want)
	})
}

func wantNote(t *testing.T, w *profile.Watcher, part string) {
	t.Helper()
	patience.Until(t, "a note with "+part, func() bool { return strings.Contains(strings.Join(w.Notes(), "\n"), part) })
}

func wantNoNote(t *testing.T, w *profile.Watcher) {
	t.Helper()
	patience.Until(t, "no note", func() bool { return len(w.Notes()) == 0 })
}

func labels(value string) map[string]string { return map[string]string{"accelerator": value} }

// Verifies the watch over a real connection, in the server's protocol: one
// watch at a time, through everything that ends one, and nothing else.
func TestWatchAgainstServer(t *testing.T) {
	server := clustertest.New(t, nodeName, labels("gpu"))
	w, _ := start(t, profile.Options{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Path: filepath.Join(t.TempDir(), "selection"), Timing: quick})
	wantLabels(t, w, labels("gpu"))
	<-w.Changed()

	server.SetLabels(labels("fpga"))
	wantLabels(t, w, labels("fpga"))
	<-w.Changed()
	patience.Until(t, "one watch", func() bool { return server.Watching() == 1 })
	if watches := server.Requests("watch"); watches != 1 {
		t.Errorf("%d watches so far, want one", watches)
	}

	server.Cut()
	server.SetLabels(labels("other"))
	wantLabels(t, w, labels("other"))

	// 410 Gone, also for the version of the Node as it is.
	patience.Until(t, "one watch", func() bool { return server.Watching() == 1 })
	server.Forget()
	server.SetLabels(labels("newest"))
	server.Forget()
	server.Cut()
	wantLabels(t, w, labels("newest"))
	patience.Until(t, "one watch", func() bool { return server.Watching() == 1 })
	if watches := server.Requests("watch"); watches > 6 {
		t.Errorf("%d watches until the history that was forgotten is caught up with", watches)
	}

	// The same labels are no change.
	for len(w.Changed()) > 0 {
		<-w.Changed()
	}
	server.SetLabels(labels("newest"))
	server.SetLabels(labels("newest"))
	server.SetLabels(labels("last"))
	wantLabels(t, w, labels("last"))
	<-w.Changed()
	if len(w.Changed()) > 0 {
		t.Error("labels that did not change are announced")
	}
}

// Verifies that missing rights are reported as a problem, that the labels last seen stay
// meanwhile, and that they change again when the rights are back.
func TestForbidden(t *testing.T) {
	server := clustertest.New(t, nodeName, labels("gpu"))
	w, _ := start(t, profile.Options{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Path: filepath.Join(t.TempDir(), "selection"), Timing: quick})
	wantLabels(t, w, labels("gpu"))
	wantNoNote(t, w)
	server.Forbid(true)
	server.Cut()
	wantNote(t, w, "; the labels last seen still count")
	server.SetLabels(labels("fpga"))
	if got := w.Labels(); !maps.Equal(got, labels("gpu")) {
		t.Errorf("labels %v while forbidden, want those last seen", got)
	}
	server.Forbid(false)
	wantLabels(t, w, labels("fpga"))
	wantNoNote(t, w)
}

// Verifies a Node that does not exist yet, is created, deleted and created again: the watch
// reports each, and the Node is not polled.
func TestNodeComesAndGoes(t *testing.T) {
	server := clustertest.New(t, nodeName, nil)
	w, _ := start(t, profile.Options{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Path: filepath.Join(t.TempDir(), "selection"), Timing: quick})
	wantNote(t, w, "the cluster has no Node node-1")
	if w.Labels() != nil {
		t.Errorf("labels %v of no Node", w.Labels())
	}
	patience.Until(t, "a watch", func() bool { return server.Watching() == 1 })
	server.SetLabels(map[string]string{})
	wantLabels(t, w, map[string]string{})
	wantNoNote(t, w)
	server.DeleteNode()
	wantNote(t, w, "the cluster has no Node node-1")
	server.Cut() // it is still gone after that
	patience.Until(t, "another watch", func() bool { return server.Requests("watch") == 2 && server.Watching() == 1 })
	wantNote(t, w, "the cluster has no Node node-1")
	server.SetLabels(labels("gpu"))
	wantLabels(t, w, labels("gpu"))
	wantNoNote(t, w)
}

// Verifies that a restart finds the labels and the profile again without a server,
// that another node's are not taken, and that a damaged file is moved aside.
func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "selection")
	server := clustertest.New(t, nodeName, labels("gpu"))
	opts := profile.Options{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Path: path, Timing: quick}
	w, stop := start(t, opts)
	wantLabels(t, w, labels("gpu"))
	w.Remember("big")
	stop()

	server.Away(true)
	w, stop = start(t, opts)
	if got := w.Labels(); !maps.Equal(got, labels("gpu")) || w.Last() != "big" {
		t.Errorf("after a restart the labels are %v, the profile %q", got, w.Last())
	}
	wantNote(t, w, "can't be watched")
	stop()

	opts.Node = "node-2"
	if other := profile.Open(opts); other.Labels() != nil || other.Last() != "" {
		t.Errorf("another node has labels %v and the profile %q", other.Labels(), other.Last())
	}
	opts.Node = nodeName
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	w = profile.Open(opts)
	if notes := strings.Join(w.Notes(), "\n"); w.Labels() != nil || !strings.Contains(notes, path+".corrupt-1") {
		t.Errorf("a damaged file gives labels %v and the notes %q", w.Labels(), notes)
	}
}
