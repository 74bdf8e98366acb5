package features_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/patience"
)

// Verifies against a server over a real connection that our labels come, change and
// go and nobody else's do; that a label which somebody else has set to another value
// is theirs, said, and costs the others nothing; and that a Node which is gone is not
// made anew.
func TestLabelsAgainstServer(t *testing.T) {
	server := clustertest.New(t, "node-1", map[string]string{"kubernetes.io/os": "linux", modelOf: "mine"})
	p := features.New(features.Options{
		Target: features.NewLabels(server.Client(t), "node-1"),
		Timing: features.Timing{Spread: 1, Gap: time.Millisecond, Backoff: time.Millisecond, BackoffLimit: 10 * time.Millisecond},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	want := func(what string, pairs ...string) {
		t.Helper()
		want := set(append(pairs, "kubernetes.io/os", "linux")...).Values
		patience.Until(t, what, func() bool { return maps.Equal(server.Labels(), want) })
	}
	problem := func(parts ...string) {
		t.Helper()
		patience.Until(t, "problem "+strings.Join(parts, " "), func() bool {
			state, _ := p.State()
			text := strings.Join(state.Problems, "\n")
			for _, part := range parts {
				if !strings.Contains(text, part) {
					return false
				}
			}
			return len(parts) > 0 || text == ""
		})
	}
	p.Publish(set(modelOf, "M1", countOf, "8"))
	want("the other label", modelOf, "mine", countOf, "8")
	problem(modelOf, "is not set to M1", `conflict with "kubectl-label"`)

	server.AddLabels(map[string]string{modelOf: ""})
	p.Seen(server.Labels())
	want("the label that was in conflict", modelOf, "M1", countOf, "8")
	problem()

	p.Publish(set(countOf, "7"))
	want("a change, and one label less", countOf, "7")

	server.AddLabels(map[string]string{countOf: ""})
	p.Seen(server.Labels())
	want("the label that somebody removed", countOf, "7")

	server.DeleteNode()
	p.Publish(set(countOf, "6"))
	problem("the cluster has no such Node")
	if labels := server.Labels(); labels != nil {
		t.Errorf("a Node was made: %v", labels)
	}
	server.SetLabels(map[string]string{"kubernetes.io/os": "linux"})
	want("the Node is back", countOf, "6")
	problem()
}
