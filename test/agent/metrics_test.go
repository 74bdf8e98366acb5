package agent

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/patience"
)

// metrics are those of the running agent, a line each; "" if it serves none.
func (n *node) metrics() string {
	n.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience.Long}
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
