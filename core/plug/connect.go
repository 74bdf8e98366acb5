package plug

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
	"github.com/accelmux/accelmux/proto/goplugin"
)

// window is gRPC's flow-control window in bytes, its minimum: messages that a backend sends
// faster than they are read wait in it and are outdated when they are read. For a larger
// message gRPC extends it while it reads.
const window = 64 << 10

// Start is the start of one process.
type Start struct {
	// Name is the backend's: its user depends on it.
	Name    string
	Program *Program
	Policy  sandbox.Policy
	// Given is what the process gets beyond its own files.
	Given sandbox.Needs
	// Env is added to the small environment that every backend gets.
	Env map[string]string
	// Log receives the process's records; nil discards them.
	Log *slog.Logger
}

// dispensed is what go-plugin's start returned.
type dispensed struct {
	protocol int
	service  backendv1.BackendServiceClient
	err      error
}

// Start starts a program. It waits for its launcher, if it has one, but not for the program. The error is an
// [*UnusableError] if there is no launcher.
//
// It uses go-plugin's handshake and connection. Its Kill is never called: it waits without
// a bound for a stopped process, or one whose pipes another process keeps open. Its
// goroutines end when the process has ended, the pipes are closed and the connection is
// closed; End does that.
func (r *Room) Start(ctx context.Context, s Start) (*Process, error) {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if err := r.awaitLauncher(ctx, s.Program); err != nil {
		return nil, err
	}
	p := &Process{room: r, name: s.Name, program: s.Program, log: s.Log, frames: newFrames(), client: make(chan struct{}), results: make(chan dispensed, 1)}
	started := make(chan *process, 1)
	config, err := p.clientConfig(s, started)
	if err != nil {
		return nil, fmt.Errorf("prepare the start: %w", err)
	}
	client := plugin.NewClient(config)
	go func() {
		defer close(p.client)
		var d dispensed
		d.service, d.err = dispense(client)
		d.protocol = client.NegotiatedVersion()
		p.results <- d
	}()
	// go-plugin makes the runner or fails, without waiting for anything.
	select {
	case p.run = <-started:
	case d := <-p.results:
		select {
		case p.run = <-started:
			p.results <- d
		default:
			return nil, fmt.Errorf("prepare the start: %w", d.err)
		}
	}
	r.mu.Lock()
	r.processes[p] = true
	r.mu.Unlock()
	return p, nil
}

// Connect waits until the process has completed the handshake and is connected. The deadline of the handshake is the
// program's: what the sandbox takes before is not its time. The errors are those of [Process.Call], and an [*UnusableError]
// if the program cannot be executed.
func (p *Process) Connect(ctx context.Context) error {
	limit := p.room.timing.Start
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.run.started:
		timer.Reset(limit)
	case <-timer.C:
		return fmt.Errorf("its sandbox was not made, and the program not executed, within %s: %w", limit, ErrStarved)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var d dispensed
	select {
	case d = <-p.results:
	case <-timer.C:
		return p.startFailure(ctx, nil)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.err != nil {
		return p.startFailure(ctx, d.err)
	}
	if !p.program.Unchanged() {
		return fmt.Errorf("the program %s was changed while it was being started", p.program.Path)
	}
	p.Protocol, p.Service = d.protocol, d.service
	return nil
}

func (p *Process) clientConfig(s Start, started chan<- *process) (*plugin.ClientConfig, error) {
	security, certificate, err := MutualTLS()
	if err != nil {
		return nil, err
	}
	r := p.room
	log := newLogPipe(s.Log, r.timing.LogLines, r.timing.LogBurst)
	return &plugin.ClientConfig{
		HandshakeConfig:  goplugin.Handshake,
		VersionedPlugins: goplugin.Versions(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		TLSConfig:        security,
		SkipHostEnv:      true,
		// Not go-plugin, which kills the process then: its end would be the reason, and not that it was late.
		StartTimeout: 3 * r.timing.Start,
		Logger:       hclog.NewNullLogger(), // startFailure reports what concerns operators
		// After the handshake, a Go backend's os.Stdout and os.Stderr are sent over gRPC. They
		// must be read, or the backend blocks.
		SyncStdout:       log.writer(),
		SyncStderr:       log.writer(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: r.socketsOf(s.Program)},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			box, err := r.sandbox(s, dir)
			if err == nil {
				env := slices.Concat(Environment(s.Env), cmd.Env, []string{backendplugin.ClientCertKey + "=" + certificate})
				var run *process
				if run, err = newProcess(s.Program, env, box, log, r.reaper); err == nil {
					started <- run
					return run, nil
				}
			}
			return nil, errors.Join(err, r.remove(dir, box.Cgroup))
		},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(backendplugin.MaxMessageSize), grpc.MaxCallSendMsgSize(backendplugin.MaxMessageSize),
				grpc.ForceCodecV2(Codec())),
			grpc.WithUnaryInterceptor(cleanUnary),
			grpc.WithStreamInterceptor(p.intercept),
			grpc.WithTransportCredentials(newFrameCredentials(security, p.frames)), grpc.WithMaxHeaderListSize(maxHeaders),
			// With dynamic windows gRPC would measure the connection with a ping for each
			// heartbeat.
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: r.timing.Start}),
			grpc.WithDisableServiceConfig(),
		},
	}, nil
}

// intercept stores the connection when go-plugin first uses it: after an error in its start
// go-plugin would not return it, and it would stay open. It also refuses the broker, which
// the contract does not use and through which a backend could fill go-plugin's memory.
func (p *Process) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	if method == "/plugin.GRPCBroker/StartStream" {
		return nil, status.Error(codes.Unimplemented, "the broker is not used")
	}
	stream, err := next(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, cleanStatus(err)
	}
	return cleanStream{stream}, nil
}

func dispense(client *plugin.Client) (backendv1.BackendServiceClient, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	raw, err := protocol.Dispense(goplugin.Name)
	if err != nil {
		return nil, err
	}
	service, ok := raw.(backendv1.BackendServiceClient)
	if !ok {
		return nil, fmt.Errorf("%T is not a client of the backend service", raw)
	}
	return service, nil
}

// startFailure returns why there is no connection, from the state of the process and its
// handshake: go-plugin's errors are not meant for operators. err is nil after a timeout.
func (p *Process) startFailure(ctx context.Context, err error) error {
	run, limit := p.run, p.room.timing.Start
	if err != nil && run.stdout.first() == "" {
		Within(run.exited, p.room.timing.Reap)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-run.started:
		if errors.Is(run.failure, syscall.ETXTBSY) {
			return fmt.Errorf("it is still being written: %w", run.failure)
		}
		if run.failure != nil {
			return &UnusableError{run.failure}
		}
	default:
	}
	line := strings.TrimRight(run.stdout.first(), "\r\n")
	parts := strings.Split(line, "|")
	ending := run.ending()
	if ending != "" {
		Within(run.stderr.done, p.room.timing.Reap)
	}
	switch {
	case len(parts) >= 4 && parts[0] == strconv.Itoa(plugin.CoreProtocolVersion) && parts[1] != strconv.Itoa(backendplugin.ProtocolVersion):
		return fmt.Errorf("it implements version %s of the backend contract, but this core needs version %d: install matching versions of the backend and the core",
			text.Printable(parts[1], 16), backendplugin.ProtocolVersion)
	case line != "" && len(parts) < 4:
		return fmt.Errorf("it printed %q instead of the handshake: nothing else may be printed to standard output before it", text.Printable(line, 128))
	case ending != "":
		return fmt.Errorf("it %s before the connection was made%s", ending, p.LastLog())
	case err == nil || line == "":
		return p.Late(Times{}, limit, "it did not complete the handshake within %s: is it a backend?")
	}
	return fmt.Errorf("the handshake failed: %s%s", text.Printable(err.Error(), 256), p.LastLog())
}
