package status

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/server"
	"github.com/accelmux/accelmux/core/status/listing"
)

const (
	// scrapes bounds the requests that are answered at once, each with all metrics in memory,
	// and scrapeWait how long another one waits.
	scrapes    = 2
	scrapeWait = 5 * time.Second
	// bindPause is the pause before a port that is in use is tried again; it doubles
	// up to bindLimit times that.
	bindPause = time.Second
	bindLimit = 32
)

// Endpoint answers over TCP, as a [server.HTTP].
type Endpoint struct {
	what, flag string // what is served, and the flag that has the address
	address    string
	handler    http.Handler
	log        *slog.Logger
	pause      time.Duration // bindPause, but in tests

	mu sync.Mutex
	// problem is why the address cannot be listened on; "" if it is.
	problem string
	bound   net.Addr
}

// NewMetrics returns an endpoint for monitoring at host:port; without a host, at all addresses of
// the machine or pod: GET /metrics in the formats of Prometheus, with the metrics of source, of tally
// and of more; GET / with page; GET /v1/devices and /v1/telemetry as the [Server] answers them, but with hashes
// for the names of pods and claims, as no client is authenticated. A bounded number of requests is answered at
// once, see [scraping]. Run opens it.
func NewMetrics(address string, source Source, tally *Tally, page http.Handler, log *slog.Logger, more ...prometheus.Collector) (*Endpoint, error) {
	mux, bounded := http.NewServeMux(), atOnce()
	mux.Handle("GET /metrics", bounded(promhttp.HandlerFor(newRegistry(source, tally, more...), promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
	})))
	mux.Handle("GET /{$}", bounded(packed(page)))
	mux.Handle("GET /v1/devices", bounded(packed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		devices := source.Devices()
		listing.HideNames(devices)
		answer(w, devices, log)
	}))))
	mux.Handle("GET /v1/telemetry", bounded(packed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		telemetry := source.Telemetry(r.Context())
		telemetry.HideNames()
		answer(w, telemetry, log)
	}))))
	return newEndpoint("metrics", "--metrics-address", address, mux, log)
}

// NewProbes returns an endpoint for kubelet's probes at host:port, apart from that for monitoring, so that
// who scrapes cannot keep the agent from being found alive: GET /livez, which has no answer while a part of the agent
// hangs, and /readyz, with 503 and what is missing while the agent is not ready. Run opens it.
func NewProbes(address string, source Source, log *slog.Logger) (*Endpoint, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		source.Alive()
		_, _ = io.WriteString(w, "ok\n") // the client may have gone
	})
	mux.Handle("GET /readyz", atOnce()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, ready := source.Report().Readiness()
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, text+"\n") // the client may have gone
	})))
	return newEndpoint("probes", "--probe-address", address, server.Once(mux), log)
}

func newEndpoint(what, flag, address string, handler http.Handler, log *slog.Logger) (*Endpoint, error) {
	if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
		return nil, fmt.Errorf("%s is host:port or :port: %w", flag, err)
	}
	return &Endpoint{what: what, flag: flag, address: address, handler: handler, log: log, pause: bindPause}, nil
}

// Run answers until ctx ends. If the port is in use, that is logged and in Notes, and tried
// again: a node must not lose its devices for that.
func (e *Endpoint) Run(ctx context.Context) error {
	for failures := 0; ; failures++ {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.address)
		if err == nil {
			failures = 0
			e.note(listener.Addr(), nil)
			err = server.HTTP{Handler: e.handler, Log: e.log}.Serve(ctx, listener)
		}
		if ctx.Err() != nil {
			return err
		}
		e.note(nil, err)
		if !backoff.Sleep(ctx, backoff.After(failures+1, e.pause, bindLimit*e.pause)) {
			return nil
		}
	}
}

// note records the address that is bound, or why none is.
func (e *Endpoint) note(bound net.Addr, err error) {
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("%s cannot be served on %s (%v): free the port, or choose another one with %s", e.what, e.address, err, e.flag)
	}
	e.mu.Lock()
	before := e.problem
	e.problem, e.bound = problem, bound
	e.mu.Unlock()
	switch {
	case bound != nil:
		e.log.Info(e.what+" are served", "address", bound.String())
	case problem != before:
		e.log.Error(problem)
	}
}

// Address is where the endpoint is reached, host:port; "" while it is not.
func (e *Endpoint) Address() string {
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bound == nil {
		return ""
	}
	return e.bound.String()
}

// Notes returns the problems of the endpoint; none for a nil one.
func (e *Endpoint) Notes() []string {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.problem == "" {
		return nil
	}
	return []string{e.problem}
}
