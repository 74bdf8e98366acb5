package profile_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/profile"
)

// Verifies that an API server that is away for six hours is asked about once a
// minute, that the labels stay, and that it is found again within two minutes, also if
// it no longer knows the version last seen. The log has a line for each of the two
// changes, not for each try.
func TestAwayForHours(t *testing.T) {
	for name, away := range map[string]func(*clustertest.Server, bool){
		"refuses":          (*clustertest.Server).Away,
		"does not answer":  (*clustertest.Server).Mute,
		"forbids":          (*clustertest.Server).Forbid,
		"has no history":   func(s *clustertest.Server, away bool) { s.Away(away); s.Forget() },
		"forbids the list": func(s *clustertest.Server, away bool) { s.Old(); s.Forget(); s.Forbid(away) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := clustertest.NewInBubble(t, nodeName, labels("gpu"))
				var log bytes.Buffer
				w, stop := start(t, profile.WatcherOptions{
					Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Memory: memory(t.TempDir(), nodeName),
					Log: slog.New(slog.NewTextHandler(&log, nil)),
				})
				defer stop()
				<-w.Changed()
				requests := func() int { return server.Requests("watch") + server.Requests("list") }
				away(server, true)
				server.Cut()
				<-time.After(10 * time.Minute)
				before := requests()
				<-time.After(6 * time.Hour)
				synctest.Wait()
				if got := requests() - before; got < 6*60 || got > 6*60*2*3 {
					t.Errorf("%d requests in six hours", got)
				}
				if notes := w.Problem(); !strings.Contains(notes, "its labels and cordoned devices count as last seen") || w.Watching() {
					t.Errorf("notes %q, watching %v", notes, w.Watching())
				}
				if w.Labels()["accelerator"] != "gpu" || len(w.Changed()) > 0 {
					t.Errorf("labels %v, changed %v", w.Labels(), len(w.Changed()) > 0)
				}
				server.SetLabels(labels("fpga"))
				away(server, false)
				<-time.After(2 * time.Minute) // a pause, and before it two requests without an answer
				synctest.Wait()
				if notes := w.Problem(); notes != "" || w.Labels()["accelerator"] != "fpga" || !w.Watching() {
					t.Errorf("after it is back the labels are %v, the notes %q, watching %v", w.Labels(), notes, w.Watching())
				}
				if lines := log.String(); strings.Count(lines, "\n") != 2 || !strings.Contains(lines, "watched again") {
					t.Errorf("the log is\n%s", lines)
				}
			})
		})
	}
}
