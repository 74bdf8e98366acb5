package agent

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
)

// metrics are those of the running agent, a line each; "" if it serves none.
func (n *node) metrics() string {
	n.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get("http://" + n.agent.MetricsAddress() + "/metrics")
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		n.Errorf("/metrics: %s, %v:\n%s", response.Status, err, text)
	}
	return "\n" + string(text)
}

// wantMetrics waits until the agent serves these lines, all at once.
func (n *node) wantMetrics(lines ...string) {
	n.Helper()
	n.eventually("metrics "+strings.Join(lines, ", "), func() bool {
		all := strings.Split(n.metrics(), "\n")
		return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(all, line) })
	})
}

// withMetrics has an agent serve metrics on a port that is free.
func withMetrics(options *agent.Options) { options.MetricsAddress = "127.0.0.1:0" }

// Verifies that a scrape tells what happens on the node while it happens.
func TestMetrics(t *testing.T) {
	t.Parallel()
	n, server, _ := startCluster(t, oneBackend, 4, map[string]string{})
	n.wantMetrics(
		`accelmux_ready 1`, `accelmux_problems 0`, `accelmux_apiserver_watching 1`,
		`accelmux_backend_state{backend="mock",state="running"} 1`, `accelmux_backend_devices{backend="mock"} 4`,
		`accelmux_resource_registrations_total{resource="example.com/gpu"} 1`, `accelmux_resource_allocated_units{resource="example.com/gpu"} 0`,
	)
	n.allocate("pod", gpu, 2)
	n.scenario("devices: {mock-1: {fault: {code: ecc, recovery: self}}}")
	n.configure("no configuration")
	server.Away(true)
	n.wantMetrics(
		`accelmux_allocations_total{resource="example.com/gpu",result="success"} 1`, `accelmux_allocation_duration_seconds_count 1`,
		`accelmux_resource_allocated_units{resource="example.com/gpu"} 2`, `accelmux_resource_healthy_units{resource="example.com/gpu"} 3`,
		`accelmux_config_refused 1`, `accelmux_apiserver_watching 0`, `accelmux_ready 1`,
	)
	n.stopAgent()
	if text := n.metrics(); text != "" {
		t.Errorf("metrics are served after the end:\n%s", text)
	}
}
