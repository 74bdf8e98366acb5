package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Exit codes of a backend process.
const (
	exitStopped = 0 // stopped as requested, or the parent has ended
	exitFailed  = 1 // could not start
	exitPanic   = 2 // the backend's loop panicked
)

const (
	// loopGrace is how long the loop may take to end; the core kills after 2 s.
	loopGrace = time.Second
	// serverGrace is how long the gRPC server may take after that.
	serverGrace = 500 * time.Millisecond
)

// Serve runs b as a backend process until the core ends it, and returns the
// exit code for main:
//
//	func main() { os.Exit(sdk.Serve(nvidia.New(os.Exit))) }
//
// The code is 0 after a requested end, 1 if the process was started by hand or could not start,
// 2 after a panic in the loop. Serve changes the whole process: its standard output, the default
// logger, SIGTERM and SIGINT. Call it once.
func Serve(b Backend) int {
	if os.Getenv(backendplugin.CookieKey) != backendplugin.CookieValue {
		name, version := b.Identity()
		startedByHand(os.Stderr, filepath.Base(os.Args[0]), name, version)
		return exitFailed
	}
	parent := os.Getppid()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(stop)

	log := Logger()
	slog.SetDefault(log)
	p, err := newProcess(b, log)
	if err != nil {
		log.Error("the backend cannot start", "error", err)
		return exitFailed
	}
	return p.serve(stop, orphaned(parent, p.server.ctx.Done()))
}

// startedByHand explains this program to a user.
func startedByHand(w io.Writer, program, name, version string) {
	// An error here could not be reported anywhere.
	_, _ = fmt.Fprintf(w, `%[1]s is the backend %[2]q (version %[3]s) of accelmux.
It is started by the accelmux agent and does nothing on its own.

To use it, put it into the agent's backend directory, beside its manifest
%[1]s.yaml, and name it in the node configuration:

    backends:
      - name: %[2]s
        command: %[1]s
`, program, name, version)
}

// process is a running backend.
type process struct {
	server *Server
	at     *endpoint
	grpc   *grpc.Server
	log    *slog.Logger
}

// newProcess makes the server, and sends the handshake to the core.
func newProcess(b Backend, log *slog.Logger) (_ *process, err error) {
	stdout, err := takeStdout()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stdout.Close()) }()
	server, err := NewServer(b, log)
	if err != nil {
		return nil, err
	}
	at, err := listen(server.ctx, os.Getenv)
	if err != nil {
		return nil, err
	}
	if _, err := stdout.WriteString(at.line); err != nil {
		return nil, fmt.Errorf("send the handshake to the core: %w", errors.Join(err, at.listener.Close()))
	}
	return &process{server: server, at: at, grpc: newGRPC(server, at), log: log}, nil
}

// newGRPC returns a server with the contract's limits.
func newGRPC(server *Server, at *endpoint) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(backendplugin.MaxMessageSize),
		grpc.MaxSendMsgSize(backendplugin.MaxMessageSize),
		// A core that pings often to detect a dead backend is not refused.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if at.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(at.tls)))
	}
	g := grpc.NewServer(options...)
	backendv1.RegisterBackendServiceServer(g, server)
	alive := health.NewServer()
	alive.SetServingStatus(backendplugin.HealthService, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, alive)
	return g
}

// serve runs until there is a reason to end, and then ends everything.
func (p *process) serve(stop <-chan os.Signal, orphan <-chan struct{}) int {
	served := make(chan error, 1)
	go func() { served <- p.grpc.Serve(p.at.listener) }()
	code := exitStopped
	select {
	case err := <-served:
		p.log.Error("the backend ends, its socket is gone", "error", err)
		code = exitFailed
	case got := <-stop:
		p.log.Info("received a signal; the backend ends", "signal", got.String())
	case <-orphan:
		p.log.Warn("the agent has ended; the backend ends")
	case <-p.server.dead:
		code = exitPanic
	}
	ctx, cancel := context.WithTimeout(context.Background(), loopGrace)
	defer cancel()
	if err := p.server.Close(ctx); err != nil {
		p.log.Warn("the backend ends without its loop", "error", err)
	}
	p.end()
	return code
}

// end stops the server and removes the socket. It waits at most serverGrace for a call that does
// not return.
func (p *process) end() {
	// The server may not have the listener yet, if it ends right after the handshake.
	_ = p.at.listener.Close()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		p.grpc.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(serverGrace):
	}
}
