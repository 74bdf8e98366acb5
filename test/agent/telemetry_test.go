package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/telemetry"
)

const (
	listening    = "the core listens to telemetry\" "
	listenedLast = "the core listens to telemetry no more"
)

// prepares is the line of a metric of the mock backend that does not change.
func prepares(device, namespace, pod, container string) string {
	return fmt.Sprintf(`accelmux_device_prepares_total{backend="mock",claim="",container="%s",device="%s",namespace="%s",pod="%s",resource="example.com/gpu"} 0`,
		container, device, namespace, pod)
}

// startMeasured is a node with metrics, on which nobody has asked for any yet.
func startMeasured(t *testing.T) *node {
	t.Helper()
	config := strings.Replace(oneBackend, "recovery:", "telemetry: {interval: 1s}\n        recovery:", 1)
	n := startNode(t, 4, config, withMetrics, quickUsage, func(options *agent.Options) {
		options.Timing.Telemetry = telemetry.Timing{Idle: time.Second, First: 5 * time.Second, Backoff: 100 * time.Millisecond}
	})
	n.eventually("metrics are served", func() bool { return n.agent.MetricsAddress() != "" })
	return n
}

// Verifies that the first scrape has what the backend measures, with who holds the
// device, and that the backend is asked from the first scrape on until nobody has
// scraped for a while.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	n := startMeasured(t)
	if n.logged(listening) {
		t.Error("the backend is asked though nobody listens")
	}
	if text := n.metrics(); !strings.Contains(text, prepares("mock-0", "", "", "")) {
		t.Errorf("the first scrape has no telemetry:\n%s", text)
	}
	holder := n.allocate("team/train", gpu, 1)[0]
	n.wantMetrics(prepares(holder, "team", "train", "main"), "accelmux_problems 0")
	if text := n.metrics(); strings.Contains(text, prepares(holder, "", "", "")) {
		t.Error("the device that is held has its values twice")
	}
	n.eventually("nobody listens any more", func() bool { return n.logged(listenedLast) })
	n.wantMetrics(prepares(holder, "team", "train", "main"))
	n.eventually("the backend is asked once more", func() bool {
		log := n.log.String()
		began, ended := strings.Count(log, listening), strings.Count(log, listenedLast)
		return began >= 2 && began <= ended+1
	})
}
