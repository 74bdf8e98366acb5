package status

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/test/patience"
)

var update = flag.Bool("update", false, "write the generated files anew")

// trouble is an agent in which everything that a metric tells of is the case.
type trouble struct{ topologies }

func (trouble) Report() Report {
	return Report{
		Version: "v1.2.3", NotReady: []string{"backend b has not reported yet", "kubelet has not accepted resource r yet"},
		Config: profile.Status{
			Profile: "gpu", AppliedAt: time.UnixMilli(1_700_000_000_500),
			Refused: "line 3", Unchosen: "two match", Waits: "for backend b",
		},
		KubeletMissing: "its directory does not exist",
		Cluster:        &Cluster{Watching: false, EventsFailing: true},
		Backends: []Backend{
			{Name: "nvidia", Vendor: "NVIDIA", Version: "570.1", State: "running", Restarts: 2, Devices: 2, Sandbox: &Sandbox{Measures: []sandbox.Measure{
				{Name: sandbox.Files, InForce: true}, {Name: sandbox.User},
			}}},
			{Name: "bad", State: "quarantined"},
		},
		Resources: []Resource{
			{Name: "nvidia.com/gpu", State: "serving", Registrations: 3, Units: 2, Healthy: 1, Allocated: 1},
			{Name: "amd.com/gpu", State: "waiting"},
			{Name: "nvidia.com/mig", API: "dra", State: "serving", Units: 7, Healthy: 7, Allocated: 2},
		},
		Drivers:  []Driver{{Name: "gpu.nvidia.com", Backend: "nvidia", Devices: 70, Slices: 2, Claims: 3, Registered: true, Published: true}, {Name: "bad.accelmux.io", Backend: "bad"}},
		Problems: make([]Problem, 4),
	}
}

func (trouble) Devices() []listing.Device { return nil }
func (trouble) Alive()                    {}

func (trouble) Healths(show func(DeviceHealth)) {
	show(DeviceHealth{Backend: "nvidia", ID: "GPU-0", Resource: "nvidia.com/gpu", Healthy: true})
	show(DeviceHealth{Backend: "nvidia", ID: "GPU-1", Fault: "xid-79"})
}

func (trouble) Telemetry(context.Context) listing.Telemetry { return listing.Telemetry{} }

func busy() *Tally {
	tally, failed := NewTally(), errors.New("failed")
	tally.Allocated("nvidia.com/gpu", 2*time.Millisecond, nil)
	tally.Allocated("nvidia.com/gpu", time.Millisecond, failed)
	tally.Prepared("nvidia.com/gpu", 3*time.Second, nil)
	tally.Released("nvidia", failed)
	tally.Reset("nvidia", nil)
	tally.Chosen("nvidia.com/gpu", "enumeration", 3*time.Microsecond)
	tally.Chosen("nvidia.com/gpu", "greedy", 10*time.Millisecond)
	tally.ClaimPrepared("gpu.nvidia.com", 2*time.Millisecond, nil)
	tally.ClaimPrepared("gpu.nvidia.com", time.Second, failed)
	tally.ClaimUnprepared("gpu.nvidia.com", 5*time.Millisecond, nil)
	return tally
}

// Verifies what a scrape gives, to the letter, and that the names and the types
// are as Prometheus wants them.
func TestMetrics(t *testing.T) {
	registry := newRegistry(trouble{}, busy())
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	all, err := registry.Gather()
	must(t, err)
	var text bytes.Buffer
	count := 0
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), prefix) || f.GetName() == buildInfo.name { // that one has Go's version
			continue
		}
		count++
		_, err := expfmt.MetricFamilyToText(&text, f)
		must(t, err)
	}
	if want := len(families) + len(tallied) - 1; count != want {
		t.Errorf("%d metrics of ours, want all %d", count, want)
	}
	const golden = "testdata/metrics.txt"
	if *update {
		must(t, os.WriteFile(golden, text.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if n, err := testutil.GatherAndCount(registry, "go_goroutines", "process_start_time_seconds"); err != nil || n != 2 {
		t.Errorf("%d metrics of the process, %v", n, err)
	}
}

// Verifies that the documentation's table has the metrics as they are.
func TestDocumentHasTheMetrics(t *testing.T) {
	const path, head = "../../docs/operations.md", "| metric | labels | meaning |\n| --- | --- | --- |\n"
	have, err := os.ReadFile(path)
	must(t, err)
	before, rest, ok := strings.Cut(string(have), head)
	if !ok {
		t.Fatalf("%s has no table of metrics", path)
	}
	after := rest
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	want := before + head + table() + after
	if string(have) == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: run `go test ./core/status -update`", path)
	}
	must(t, os.WriteFile(path, []byte(want), 0o644))
}

// endpoint runs one on a port that is free until the test ends.
func endpoint(t *testing.T, source Source) *Endpoint {
	t.Helper()
	e, err := NewMetrics("127.0.0.1:0", source, NewTally(), http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	return opened(t, e, err)
}

func probes(t *testing.T, source Source) *Endpoint {
	t.Helper()
	e, err := NewProbes("127.0.0.1:0", source, slog.New(slog.DiscardHandler))
	return opened(t, e, err)
}

func opened(t *testing.T, e *Endpoint, err error) *Endpoint {
	t.Helper()
	must(t, err)
	start(t, e.Run)
	patience.Until(t, "it is served", func() bool { return e.Address() != "" })
	return e
}

// start runs a part of the agent until the test ends.
func start(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func get(t *testing.T, e *Endpoint, path string) (code int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience.Long}
	response, err := client.Get("http://" + e.Address() + path)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

// Verifies what the endpoint answers for an agent that is ready and for one that
// is not.
func TestEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		source Source
		ready  int
		says   string
		metric string
	}{
		"ready":     {fixed{}, http.StatusOK, "ready", "accelmux_ready 1\n"},
		"not ready": {trouble{}, http.StatusServiceUnavailable, "kubelet has not accepted resource r yet", "accelmux_ready 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			e, probed := endpoint(t, c.source), probes(t, c.source)
			if code, body := get(t, probed, "/livez"); code != http.StatusOK {
				t.Errorf("/livez: %d %s", code, body)
			}
			if code, body := get(t, probed, "/readyz"); code != c.ready || !strings.Contains(body, c.says) {
				t.Errorf("/readyz: %d %s", code, body)
			}
			for _, path := range []string{"/livez", "/readyz"} {
				response, err := http.Get("http://" + probed.Address() + path)
				must(t, err)
				must(t, response.Body.Close())
				if !response.Close {
					t.Errorf("%s: the connection is not closed", path)
				}
			}
			if code, body := get(t, e, "/metrics"); code != http.StatusOK || !strings.Contains(body, c.metric) {
				t.Errorf("/metrics: %d, without %s:\n%s", code, c.metric, body)
			}
			if code, _ := get(t, e, "/v1/status"); code != http.StatusNotFound {
				t.Errorf("the admin socket's answers are served over TCP, too: %d", code)
			}
		})
	}
}

// named is an agent whose devices pods have.
type named struct{ fixed }

var secret = []listing.Holder{{Namespace: "team", Pod: "secret-pod", Container: "secret-main"}}

func (named) Devices() []listing.Device { return []listing.Device{{ID: "d", Holders: secret}} }
func (named) Telemetry(context.Context) listing.Telemetry {
	return listing.Telemetry{Devices: []listing.Measured{{ID: "d", Holders: secret}}}
}

// Verifies that devices and telemetry are served over TCP without the names of pods.
func TestEndpointHidesNames(t *testing.T) {
	e := endpoint(t, named{})
	for _, path := range []string{"/v1/devices", "/v1/telemetry"} {
		code, body := get(t, e, path)
		if code != http.StatusOK || !strings.Contains(body, listing.Hash("pod", "team", "secret-pod")) || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// Verifies that a wrong address is refused at once, and that a port which is taken
// is told, tried again, and served when it is free.
func TestEndpointAddress(t *testing.T) {
	for _, bad := range []string{"8417", ":metrics-port", "127.0.0.1:99999"} {
		if _, err := NewMetrics(bad, fixed{}, NewTally(), http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := other.Addr().String()
	e, err := NewMetrics(address, fixed{}, NewTally(), http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	must(t, err)
	e.pause = time.Millisecond
	start(t, e.Run)
	patience.Until(t, "a note about the port", func() bool {
		notes := fmt.Sprint(e.Notes())
		return strings.Contains(notes, address) && strings.Contains(notes, "--metrics-address")
	})
	must(t, other.Close())
	patience.Until(t, "it is served", func() bool { return e.Address() == address && len(e.Notes()) == 0 })
}

// Verifies which names of devices' metrics are not for backends to use: those that
// the contract says.
func TestNamed(t *testing.T) {
	if got := Named("accelmux_device_"); !slices.Equal(got, []string{"healthy", "fault_info"}) {
		t.Errorf("%v: a change belongs into backend.proto, at Metric.name", got)
	}
}

// table is all metrics as rows of a Markdown table.
func table() string {
	var b strings.Builder
	row := func(name string, labels []string, help string) {
		b.WriteString("| `" + name + "` | " + strings.Join(labels, ", ") + " | " + help + " |\n")
	}
	for _, f := range families {
		row(f.name, f.labels, f.help)
	}
	for _, c := range tallied {
		row(prefix+c.name, c.labels, c.help)
	}
	return b.String()
}

// Verifies that an agent of which a part hangs does not answer that it is alive.
func TestNotAlive(t *testing.T) {
	release := make(chan struct{})
	e := probes(t, stuck{release: release})
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address()+"/livez", nil)
	must(t, err)
	if response, err := http.DefaultClient.Do(request); err == nil {
		t.Error("it answers", response.Body.Close())
	}
}

// stuck is an agent whose parts hang.
type stuck struct {
	fixed
	release chan struct{}
}

func (s stuck) Alive() { <-s.release }
