package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
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

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
	"github.com/accelmux/accelmux/proto/goplugin"
)

// window is gRPC's flow-control window in bytes, its minimum: messages that a backend sends
// faster than they are read wait in it and are outdated when they are read. For a larger
// message gRPC extends it while it reads.
const window = 64 << 10

// connect starts the program and connects to it.
//
// It uses go-plugin's handshake and connection. Its Kill is never called: it waits without
// a bound for a stopped process, or one whose pipes another process keeps open. Its
// goroutines end when the process has ended, the pipes are closed and the connection is
// closed; instance.end does that.
func (i *instance) connect() error {
	type result struct {
		protocol int
		service  backendv1.BackendServiceClient
		err      error
	}
	if err := i.awaitLauncher(); err != nil {
		return err
	}
	started := make(chan *process, 1)
	config, err := i.clientConfig(started)
	if err != nil {
		return fail(crashed, "prepare the start: %w", err)
	}
	client := plugin.NewClient(config)
	i.client = make(chan struct{})
	results := make(chan result, 1)
	go func() {
		defer close(i.client)
		var r result
		r.service, r.err = dispense(client)
		r.protocol = client.NegotiatedVersion()
		results <- r
	}()
	// go-plugin makes the runner or fails, without waiting for anything.
	var r result
	select {
	case p := <-started:
		i.adopt(p)
	case r = <-results:
		select {
		case p := <-started:
			i.adopt(p)
			results <- r
		default:
			return fail(crashed, "prepare the start: %w", r.err)
		}
	}
	timer := time.NewTimer(i.timing.Start)
	defer timer.Stop()
	// The deadline of the handshake is the program's: what the sandbox takes before is not its time.
	select {
	case <-i.process.started:
		timer.Reset(i.timing.Start)
	case <-timer.C:
		return fail(crashed, "its sandbox was not made, and the program not executed, within %s: %w", i.timing.Start, errStarved)
	case <-i.ctx.Done():
		return i.ended()
	}
	select {
	case r = <-results:
	case <-timer.C:
		return i.startFailure(nil)
	case <-i.ctx.Done():
		return i.ended()
	}
	if r.err != nil {
		return i.startFailure(r.err)
	}
	if !i.program.Unchanged() {
		return fail(crashed, "the program %s was changed while it was being started", i.program.Path)
	}
	i.protocol, i.service = r.protocol, r.service
	return nil
}

// adopt makes the process this instance's.
func (i *instance) adopt(p *process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.process = p
}

func (i *instance) clientConfig(started chan<- *process) (*plugin.ClientConfig, error) {
	security, certificate, err := MutualTLS()
	if err != nil {
		return nil, err
	}
	log := newLogPipe(i.log, i.timing.LogLines, i.timing.LogBurst)
	return &plugin.ClientConfig{
		HandshakeConfig:  goplugin.Handshake,
		VersionedPlugins: goplugin.Versions(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		TLSConfig:        security,
		SkipHostEnv:      true,
		// Not go-plugin, which kills the process then: its end would be the reason, and not that it was late.
		StartTimeout: 3 * i.timing.Start,
		Logger:       hclog.NewNullLogger(), // startFailure reports what concerns operators
		// After the handshake, a Go backend's os.Stdout and os.Stderr are sent over gRPC. They
		// must be read, or the backend blocks.
		SyncStdout:       log.writer(),
		SyncStderr:       log.writer(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: i.socketDir()},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			if err := i.share(dir); err != nil {
				return nil, errors.Join(err, os.RemoveAll(dir))
			}
			env := slices.Concat(Environment(i.spec.Env), cmd.Env, []string{backendplugin.ClientCertKey + "=" + certificate})
			p, err := newProcess(i.program, env, i.sandbox(dir), log, i.backend.sup.reaper)
			if err != nil {
				return nil, errors.Join(err, os.RemoveAll(dir))
			}
			started <- p
			return p, nil
		},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(backendplugin.MaxMessageSize), grpc.MaxCallSendMsgSize(backendplugin.MaxMessageSize),
				grpc.ForceCodecV2(newGuardedCodec())),
			grpc.WithStreamInterceptor(i.intercept),
			// With dynamic windows gRPC would measure the connection with a ping for each
			// heartbeat.
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: i.timing.Start}),
			grpc.WithDisableServiceConfig(),
		},
	}, nil
}

// intercept stores the connection when go-plugin first uses it: after an error in its start
// go-plugin would not return it, and it would stay open. It also refuses the broker, which
// the contract does not use and through which a backend could fill go-plugin's memory.
func (i *instance) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	i.mu.Lock()
	i.conn = conn
	i.mu.Unlock()
	if method == "/plugin.GRPCBroker/StartStream" {
		return nil, status.Error(codes.Unimplemented, "the broker is not used")
	}
	return next(ctx, desc, conn, method, opts...)
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
func (i *instance) startFailure(err error) error {
	p := i.process
	if err != nil && p.stdout.first() == "" {
		within(p.exited, i.timing.Reap)
	}
	if i.ctx.Err() != nil {
		return i.ended()
	}
	select {
	case <-p.started:
		if errors.Is(p.failure, syscall.ETXTBSY) {
			return fail(crashed, "it is still being written: %w", p.failure)
		}
		if p.failure != nil {
			return fail(unavailable, "%w", p.failure)
		}
	default:
	}
	line := strings.TrimRight(p.stdout.first(), "\r\n")
	parts := strings.Split(line, "|")
	ending := p.ending()
	if ending != "" {
		within(p.stderr.done, i.timing.Reap)
	}
	switch {
	case len(parts) >= 4 && parts[0] == strconv.Itoa(plugin.CoreProtocolVersion) && parts[1] != strconv.Itoa(backendplugin.ProtocolVersion):
		return fail(crashed, "it implements version %s of the backend contract, but this core needs version %d: install matching versions of the backend and the core",
			text.Printable(parts[1], 16), backendplugin.ProtocolVersion)
	case line != "" && len(parts) < 4:
		return fail(crashed, "it printed %q instead of the handshake: nothing else may be printed to standard output before it", text.Printable(line, 128))
	case ending != "":
		return fail(crashed, "it %s before the connection was made%s", ending, i.lastLog())
	case err == nil || line == "":
		return i.late(times{}, i.timing.Start, "it did not complete the handshake within %s: is it a backend?")
	}
	return fail(crashed, "the handshake failed: %s%s", text.Printable(err.Error(), 256), i.lastLog())
}
