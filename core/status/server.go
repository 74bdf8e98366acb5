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
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/status/listing"
)

// Source is what the server shows. Its methods are called concurrently, must not block
// unless their comment says so, and return values that nobody changes.
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
	listener, err := s.listen(ctx)
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
	return serve(ctx, listener, mux, s.log)
}

// serve answers on listener until ctx ends, and closes it.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) (err error) {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// Mistakes of clients are no problem of the agent.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if bounded, ok := listener.(boundedListener); ok {
		server.ConnState = bounded.set.state
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errors.Join(server.Close(), <-done)
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// listen opens the admin socket, and replaces one that an earlier run left.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	sockets, err := privateSocket(s.path)
	if err != nil {
		return nil, err
	}
	return sockets.Listen(ctx, "unix", s.path)
}

// maxSocketPath is the longest path of a unix socket, in bytes: sun_path in unix(7) has 108
// with its final zero.
const maxSocketPath = 107

// privateSocket removes what an earlier run left at the path, and returns what opens a socket
// there that never has a wider mode than 0600: bind(2) makes the file with the mode that the
// socket itself has.
func privateSocket(path string) (*net.ListenConfig, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path is too long for a unix socket: use a run directory of at most %d bytes",
			maxSocketPath-len("/")-len(filepath.Base(path)))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		controlErr := conn.Control(func(descriptor uintptr) { err = syscall.Fchmod(int(descriptor), 0o600) })
		return errors.Join(controlErr, err)
	}}, nil
}

func (s *Server) answer(w http.ResponseWriter, body any) { answer(w, body, s.log) }

func answer(w http.ResponseWriter, body any, log *slog.Logger) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Debug("answer a request", "error", err)
	}
}
