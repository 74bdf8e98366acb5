package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/telemetry"
	"github.com/accelmux/accelmux/test/patience"
)

// measured is oneBackend that is measured every second; TELEMETRY is the test's.
var measured = strings.Replace(oneBackend, "recovery:", "telemetry: {TELEMETRY}\n        recovery:", 1)

func measuring(policy string) string { return strings.Replace(measured, "TELEMETRY", policy, 1) }

const (
	listening    = "the core listens to telemetry\" "
	listenedLast = "the core listens to telemetry no more"
)

// prepares is the line of a metric of the mock backend that does not change.
func prepares(device, namespace, pod, container string) string {
	return fmt.Sprintf(`accelmux_device_prepares_total{backend="mock",container="%s",device="%s",namespace="%s",pod="%s",resource="example.com/gpu"} 0`,
		container, device, namespace, pod)
}

// startMeasured is a node with metrics, on which nobody has asked for any yet.
func startMeasured(t *testing.T, policy string) *node {
	t.Helper()
	n := startNode(t, 4, measuring(policy), withMetrics, quickUsage, func(options *agent.Options) {
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
	n := startMeasured(t, "interval: 1s")
	if n.logged(listening) {
		t.Error("the backend is asked though nobody listens")
	}
	if text := n.metrics(); !strings.Contains(text, prepares("mock-0", "", "", "")) {
		t.Errorf("the first scrape has no telemetry:\n%s", text)
	}
	if _, err := n.kubelet.Allocate(t.Context(), "team/train", "main", gpu, 1); err != nil {
		t.Fatal(err)
	}
	holder := ""
	n.eventually("the holder is known", func() bool {
		for _, d := range n.agent.Devices() {
			if len(d.Holders) == 1 && d.Holders[0].Pod != "" {
				holder = d.ID
			}
		}
		return holder != ""
	})
	n.wantMetrics(prepares(holder, "team", "train", "main"), "accelmux_problems 0")
	if text := n.metrics(); strings.Contains(text, prepares(holder, "", "", "")) {
		t.Error("the device that is held has its values twice")
	}
	n.eventually("nobody listens any more", func() bool { return n.logged(listenedLast) })
	n.wantMetrics(prepares(holder, "team", "train", "main"))
	if began, ended := strings.Count(n.log.String(), listening), strings.Count(n.log.String(), listenedLast); began < 2 || began > ended+1 {
		t.Errorf("the backend was asked %d times, and %d of them are over; want once more after the pause", began, ended)
	}
}

// Verifies that `accelmux top` has the devices measured, shows them to people and to
// programs, and goes on with -w until Ctrl-C, which is no error.
func TestTop(t *testing.T) {
	t.Parallel()
	n := startMeasured(t, "interval: 1s")
	table, errs, code := accelmux(t, "top", "--run-dir", n.path("run"))
	if code != 0 || strings.Count(table, " W ") != 4 || strings.Count(table, " °C ") != 4 {
		t.Errorf("top: exit %d, printed\n%s%s", code, table, errs)
	}
	var telemetry status.Telemetry
	text, _, _ := accelmux(t, "top", "-o", "json", "--run-dir", n.path("run"))
	if err := json.Unmarshal([]byte(text), &telemetry); err != nil || len(telemetry.Devices) != 4 || len(telemetry.Devices[0].Values) < 5 {
		t.Errorf("top -o json: %v, from\n%s", err, text)
	}
	var out lockedBuffer
	command := exec.Command(filepath.Join(built.Dir(t), "accelmux"), "top", "-w", "--every", "1s", "--run-dir", n.path("run"))
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	n.eventually("it is shown again and again", func() bool { return strings.Count(out.String(), "BACKEND") >= 3 })
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil || strings.Contains(out.String(), "accelmux:") || strings.Contains(out.String(), "\x1b") {
			t.Errorf("after Ctrl-C: %v, printed\n%s", err, out.String())
		}
	case <-time.After(patience.Long):
		t.Fatal("it goes on after Ctrl-C")
	}
}
