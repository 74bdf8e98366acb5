package profile_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	nodeName = "node-1"
)

// quick are intervals for tests against a server.
var quick = profile.Timing{
	Start: time.Millisecond, Spread: time.Millisecond, Backoff: 5 * time.Millisecond, BackoffLimit: 50 * time.Millisecond,
}

// memory returns that of a node in a directory.
func memory(dir, node string) *profile.Memory {
	return profile.OpenMemory(profile.MemoryOptions{
		Path: filepath.Join(dir, "profile"), Node: node, Configuration: "node.yaml", Log: slog.New(slog.DiscardHandler),
	})
}

// start runs a watcher and its memory until the test ends, or until the returned function.
func start(t *testing.T, opts profile.WatcherOptions) (*profile.Watcher, func()) {
	t.Helper()
	w := profile.NewWatcher(opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var storing sync.WaitGroup
		storing.Go(func() { _ = opts.Memory.Run(ctx) })
		err := w.Run(ctx)
		storing.Wait() // before the directory is removed
		done <- err
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the watcher ended with %v", err)
		}
	})
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
	patience.Until(t, "a note with "+part, func() bool { return strings.Contains(w.Problem(), part) })
}

func wantNoNote(t *testing.T, w *profile.Watcher) {
	t.Helper()
	patience.Until(t, "no note", func() bool { return w.Problem() == "" })
}

func labels(value string) map[string]string { return map[string]string{"accelerator": value} }

// Verifies that a profile can be chosen by an annotation, as by that of Intel's FPGA plugin, and
// that annotations which no selector can match are no change.
func TestAnnotations(t *testing.T) {
	server := clustertest.New(t, nodeName, labels("fpga"))
	w, _ := start(t, profile.WatcherOptions{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Memory: memory(t.TempDir(), nodeName), Timing: quick})
	wantLabels(t, w, labels("fpga"))
	<-w.Changed()
	server.SetAnnotations(map[string]string{"example.com/long": strings.Repeat("x", 64), "fpga.intel.com/device-plugin-mode": "region"})
	wantLabels(t, w, map[string]string{"accelerator": "fpga", "annotation:fpga.intel.com/device-plugin-mode": "region"})
	<-w.Changed()
	region := &config.NodeSelector{MatchAnnotations: map[string]string{"fpga.intel.com/device-plugin-mode": "region"}}
	choice, err := profile.Choose(&config.NodeConfig{Profiles: []config.Profile{{Name: "default"}, {Name: "region", NodeSelector: region}}}, w.Labels())
	if err != nil || choice.Profile.Name != "region" {
		t.Errorf("%+v, %v, want the profile region", choice, err)
	}
}

// Verifies the watch over a real connection, in the server's protocol: one
// watch at a time, through everything that ends one, and nothing else.
func TestWatchAgainstServer(t *testing.T) {
	server := clustertest.New(t, nodeName, labels("gpu"))
	w, _ := start(t, profile.WatcherOptions{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Memory: memory(t.TempDir(), nodeName), Timing: quick})
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

// Verifies a Node that does not exist yet, is created, deleted and created again: the watch
// reports each, and the Node is not polled.
func TestNodeComesAndGoes(t *testing.T) {
	server := clustertest.New(t, nodeName, nil)
	w, _ := start(t, profile.WatcherOptions{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Memory: memory(t.TempDir(), nodeName), Timing: quick})
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
