package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/core/server"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Source is what the server shows. Its methods are called concurrently, must not block
// unless their comment says so, and return values that are not changed later.
type Source interface {
	Report() Report
	Devices() []listing.Device
	// Healths calls show with each device's health in turn: a list of all devices would
	// need most of the memory of a scrape.
	Healths(show func(DeviceHealth))
	// Telemetry may wait up to a second for the first samples.
	Telemetry(ctx context.Context) listing.Telemetry
	Topologies
	// Alive returns when the parts of the agent have answered. It is cheap, and blocks if a
	// part hangs.
	Alive()
}

// SocketName is the admin socket's file name in the run directory.
const SocketName = "admin.sock"

// Server answers on a unix socket: GET /v1/status, /v1/devices, /v1/telemetry, /v1/topology and
// /v1/slices, and POST /v1/topology/explain. Only the agent's own user can open it (mode 0600).
type Server struct {
	path   string
	source Source
	log    *slog.Logger
	// explaining bounds the explanations that are computed at once.
	explaining chan struct{}
}

// NewServer makes a server for runDir/admin.sock; Run opens it.
func NewServer(runDir string, source Source, log *slog.Logger) *Server {
	return &Server{path: filepath.Join(runDir, SocketName), source: source, log: log, explaining: make(chan struct{}, 1)}
}

// Run serves until ctx ends, then removes the socket. A socket left by an
// earlier run is replaced; the caller holds the lock of the run directory.
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.listen()
	if err != nil {
		return fmt.Errorf("open the admin socket %s: %w", s.path, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.source.Report()) })
	mux.HandleFunc("GET /v1/devices", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.source.Devices()) })
	mux.HandleFunc("GET /v1/telemetry", func(w http.ResponseWriter, r *http.Request) { s.answer(w, s.source.Telemetry(r.Context())) })
	mux.HandleFunc("GET /v1/topology", s.topology)
	mux.HandleFunc("GET /v1/slices", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.source.Slices()) })
	mux.HandleFunc("POST /v1/topology/explain", s.explain)
	return server.HTTP{Handler: mux, Log: s.log}.Serve(ctx, listener)
}

// listen opens the admin socket, and replaces one that an earlier run left.
func (s *Server) listen() (net.Listener, error) {
	if len(s.path) > server.MaxPath {
		return nil, fmt.Errorf("the path is too long for a unix socket: use a run directory of at most %d bytes",
			server.MaxPath-len("/")-len(SocketName))
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return server.Unix(s.path)
}

func (s *Server) answer(w http.ResponseWriter, body any) { answer(w, body, s.log) }

func answer(w http.ResponseWriter, body any, log *slog.Logger) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Debug("answer a request", "error", err)
	}
}
