package sdk

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Exit codes of a backend process.
const (
	exitAsked  = 0 // asked to end, or the parent is gone
	exitFailed = 1 // could not start
	exitPanic  = 2 // the backend's loop panicked
)

const (
	// parentPoll is how often we look whether the parent is still there.
	parentPoll = time.Second
	// loopGrace is what the loop gets to end; the core kills after 2 s.
	loopGrace = time.Second
	// serverGrace is what the gRPC server gets after that.
	serverGrace = 500 * time.Millisecond
)

// Serve runs b as a backend process until the core ends it, and returns the
// exit code for main:
//
//	func main() { os.Exit(sdk.Serve(nvidia.New(os.Exit))) }
//
// The code is 0 after a wanted end, 1 if the process was started by hand or
// could not start, 2 after a panic in the loop. Serve takes over the process:
// its standard output, the default logger and SIGTERM. Call it once.
func Serve(b Backend) int {
	if os.Getenv(backendplugin.Handshake.MagicCookieKey) != backendplugin.Handshake.MagicCookieValue {
		startedByHand(os.Stderr, filepath.Base(os.Args[0]), b.Describe())
		return exitFailed
	}
	parent := os.Getppid()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	defer signal.Stop(term)

	log := Logger()
	slog.SetDefault(log)
	std, err := captureStdout()
	if err != nil {
		log.Error("the backend cannot start", "error", err)
		return exitFailed
	}
	defer runtime.KeepAlive(std)
	server, err := NewServer(b, log)
	if err != nil {
		log.Error("the backend cannot start", "error", err)
		return exitFailed
	}
	p := &process{server: server, std: std, log: log}
	return p.serve(term, orphaned(parent, parentPoll, server.ctx.Done()))
}

// startedByHand tells a person what this program is.
func startedByHand(w io.Writer, program string, d Description) {
	// An error here would have nowhere to go.
	_, _ = fmt.Fprintf(w, `%[1]s is the backend %[2]q (%[3]s, version %[4]s) of accelmux.
It is started by the accelmux agent and does nothing by itself.

To use it, put it into the agent's backend directory and name it in the node
configuration:

    backends:
      - name: %[2]s
        command: %[1]s
`, program, d.Name, d.Vendor, d.Version)
}

// process is a running backend.
type process struct {
	server *Server
	std    *stdio
	log    *slog.Logger

	mu   sync.Mutex
	grpc *grpc.Server // nil until go-plugin asked for it
}

// serve runs until one of the reasons to end, and ends everything.
func (p *process) serve(term <-chan os.Signal, orphan <-chan struct{}) int {
	served := make(chan struct{})
	go func() {
		defer close(served)
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig:  backendplugin.Handshake,
			VersionedPlugins: backendplugin.Versions(p.server),
			GRPCServer:       p.newGRPC,
			Logger: hclog.New(&hclog.LoggerOptions{
				Name: "go-plugin", Level: hclog.Warn, Output: stderr, JSONFormat: true,
			}),
		})
	}()
	code := exitAsked
	select {
	case <-served: // the core asked for a shutdown, or there is no listener
		if p.stopGRPC() == nil {
			code = exitFailed
		}
	case <-term:
		p.log.Info("asked to end by SIGTERM")
	case <-orphan:
		p.log.Warn("the agent is gone; the backend ends")
	case <-p.server.dead:
		code = exitPanic
	}
	ctx, cancel := context.WithTimeout(context.Background(), loopGrace)
	defer cancel()
	if err := p.server.Close(ctx); err != nil {
		p.log.Warn("the backend ends without its loop", "error", err)
	}
	p.stopGRPC()
	select {
	case <-served: // the socket is removed
	case <-time.After(serverGrace):
	}
	return code
}

// stopGRPC stops the server, which closes and removes the socket, and returns
// it; nil if there was none yet.
func (p *process) stopGRPC() *grpc.Server {
	p.mu.Lock()
	g := p.grpc
	p.mu.Unlock()
	if g != nil {
		g.Stop()
	}
	return g
}

// newGRPC makes go-plugin's server with the contract's limits.
func (p *process) newGRPC(opts []grpc.ServerOption) *grpc.Server {
	opts = append(opts,
		grpc.MaxRecvMsgSize(backendplugin.MaxMessageSize),
		grpc.MaxSendMsgSize(backendplugin.MaxMessageSize),
		// A core that pings often to find a dead backend is no abuse.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			p.std.giveBack()
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			p.std.giveBack()
			return next(srv, stream)
		}),
	)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grpc = grpc.NewServer(opts...)
	return p.grpc
}

// orphaned is closed when the parent is another one than at the start: the
// kernel gives an orphan to init or to a subreaper. The core also asks the
// kernel for a signal at its death; this holds where it could not.
func orphaned(parent int, every time.Duration, stop <-chan struct{}) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if os.Getppid() != parent {
				close(gone)
				return
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return gone
}
