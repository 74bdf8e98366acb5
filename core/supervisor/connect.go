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

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
	"github.com/accelmux/accelmux/proto/goplugin"
)

// window is how many bytes of a stream may be on their way to the core, or wait there:
// the least that gRPC knows. What a backend sends faster than it is taken waits here and
// is old when it is read. For a message that is larger gRPC opens it when it is read.
const window = 64 << 10

// connect starts the program and connects to it.
//
// Of go-plugin this uses the handshake, the mutual TLS and the connection. Its
// Kill is never called: it waits without a bound for a process that is stopped or
// whose pipes somebody holds. Its goroutines end by themselves once the process
// is gone, the pipes are closed and the connection is closed, all of which end
// does.
func (i *instance) connect(program *program) error {
	type result struct {
		protocol int
		service  backendv1.BackendServiceClient
		err      error
	}
	started := make(chan *process, 1)
	config, err := i.clientConfig(program, started)
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
	// go-plugin makes the runner within milliseconds, or fails: it has nothing to wait
	// for.
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
	select {
	case r = <-results:
	case <-timer.C:
		return i.startFailure(nil)
	case <-i.ctx.Done():
		return context.Cause(i.ctx)
	}
	if r.err != nil {
		return i.startFailure(r.err)
	}
	if !program.unchanged() {
		return fail(crashed, "the program %s was changed while it was being started", program.path)
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

func (i *instance) clientConfig(program *program, started chan<- *process) (*plugin.ClientConfig, error) {
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
		StartTimeout:     i.timing.Start,
		Logger:           newPluginLogger(i.log),
		// What a Go backend prints through os.Stdout and os.Stderr after the
		// handshake comes over gRPC. It must be read, or the backend blocks.
		SyncStdout:       log.writer(),
		SyncStderr:       log.writer(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: i.backend.sup.socketDir},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			env := slices.Concat(Environment(i.spec.Env), cmd.Env, []string{backendplugin.ClientCertKey + "=" + certificate})
			p, err := newProcess(program, env, dir, log, i.backend)
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
			// With windows of its own choice gRPC measures the way to the backend: a ping,
			// and its answer, for each heartbeat.
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: i.timing.Start}),
			grpc.WithDisableServiceConfig(),
		},
	}, nil
}

// intercept sees the connection as soon as go-plugin uses it, which is before
// go-plugin hands it over, if it ever does: an error on the way would leave it
// open. It also closes the broker, through which a backend could make go-plugin
// keep things in memory, and which this contract does not use.
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

// startFailure says why there is no connection. go-plugin's errors are meant for
// its own users, so the process and its handshake are looked at instead; err is
// nil if the time ran out.
func (i *instance) startFailure(err error) error {
	p := i.process
	if err != nil && p.stdout.first() == "" {
		within(p.exited, i.timing.Reap)
	}
	if i.ctx.Err() != nil {
		return context.Cause(i.ctx)
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
		return fail(crashed, "it speaks version %s of the backend contract, but this core speaks version %d: install a backend and a core that belong together",
			printable(parts[1], 16), backendplugin.ProtocolVersion)
	case line != "" && len(parts) < 4:
		return fail(crashed, "it printed %q instead of the handshake: nothing else may be printed to standard output before it", printable(line, 128))
	case ending != "":
		return fail(crashed, "it %s, before it could be connected to%s", ending, i.words())
	case err == nil || line == "":
		return fail(crashed, "it did not complete the handshake within %s: is it a backend?%s", i.timing.Start, i.words())
	}
	return fail(crashed, "the handshake failed: %s%s", printable(err.Error(), 256), i.words())
}
