package profile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/profile"
)

// Verifies that each change of the labels is handed on at once, and that an API server that is away changes nothing.
func TestLabelsAreHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewInBubble(t, nodeName, labels("gpu"))
		var got []string
		w, stop := start(t, profile.WatcherOptions{
			Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Memory: memory(t.TempDir(), nodeName),
			Labels: func(labels map[string]string) { got = append(got, labels["accelerator"]) },
		})
		defer stop()
		<-w.Changed()
		server.SetLabels(labels("paused"))
		<-w.Changed()
		server.SetLabels(labels("paused"))
		server.Away(true)
		server.Cut()
		<-time.After(time.Hour)
		server.SetLabels(labels("gpu"))
		synctest.Wait()
		if diff := cmp.Diff([]string{"gpu", "paused"}, got); diff != "" {
			t.Errorf("labels while the API server is away (-want +got):\n%s", diff)
		}
		server.Away(false)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"gpu", "paused", "gpu"}, got); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
}
