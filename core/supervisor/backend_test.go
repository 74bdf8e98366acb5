package supervisor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
	"github.com/accelmux/accelmux/proto/goplugin"
)

// The test binary runs itself as a backend if roleEnv is set, which selects the backend's
// behaviour. In a running backend the IDs of Prepare are commands.
const (
	roleEnv = "TEST_ROLE"
	flagEnv = "TEST_FLAG"
)

// playRole is the main function of the backends.
func playRole(role string) {
	switch role {
	case "exit":
		fmt.Fprintln(os.Stderr, "no driver: cannot go on")
		syscall.Exit(3)
	case "exit-until-flag":
		if _, err := os.Stat(os.Getenv(flagEnv)); err != nil {
			syscall.Exit(4)
		}
	case "panic":
		panic("what a driver's library does on a bad day")
	case "abort":
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGABRT) // as C's abort does
		hang()
	case "garbage":
		fmt.Println("hello from a vendor library")
	case "garbage-without-end":
		line := strings.Repeat("x", 1<<20)
		for {
			fmt.Print(line)
		}
	case "silent":
		hang()
	case "sleeper":
		signal.Ignore(syscall.SIGTERM)
		hang()
	case "tcp":
		fmt.Println("1|1|tcp|127.0.0.1:1|grpc|")
		hang()
	case "hostile-log":
		fmt.Fprintln(os.Stderr, `{"@message": 7, "@level": [], "@timestamp": {}}`)
		fmt.Fprintln(os.Stderr, `{"@message": "a good line", "@level": "warn", "key": "value"}`)
		fmt.Fprintln(os.Stderr, strings.Repeat("y", 1<<20))
	case "host":
		playHost()
		return
	case "launcher":
		playLauncher()
	case "reader":
		fmt.Fprintln(os.Stderr, "a reading process")
	}
	serveRole(role)
}

// hang blocks for ever. The runtime ends a program of which every goroutine blocks, as in
// select {}, unless it has a timer.
func hang() {
	for {
		<-time.After(time.Hour)
	}
}

func serveRole(role string) {
	switch role {
	case "orphans":
		script := "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01 &); done"
		if err := exec.Command("/bin/sh", "-c", script).Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(9)
		}
	}
	versions := goplugin.Versions(&backend{role: role, commands: make(chan string, 8)})
	if role == "protocol" {
		versions = map[int]plugin.PluginSet{7: versions[1]}
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: goplugin.Handshake, VersionedPlugins: versions,
		Logger: hclog.NewNullLogger(),
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxSendMsgSize(64<<20), grpc.UnaryInterceptor(
				func(ctx context.Context, r any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
					if role == "no-health" && strings.HasPrefix(info.FullMethod, "/grpc.health.") {
						return nil, status.Error(codes.Unimplemented, "no such service")
					}
					return handle(ctx, r)
				}))...)
		},
	})
}

// startSleeper starts a process that ignores SIGTERM and keeps the standard error open.
func startSleeper(escape bool) int {
	cmd := exec.Command(os.Args[0])
	cmd.Path, _ = os.Executable()
	cmd.Env = append(os.Environ(), roleEnv+"=sleeper")
	cmd.Stderr, cmd.Stdout = os.Stderr, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: escape}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(9)
	}
	return cmd.Process.Pid
}

// startSleepers starts n processes with sessions of their own, or as many as there can be.
func startSleepers(n int) {
	for range n {
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return
		}
	}
}

// backend is a server of the contract with a behaviour.
type backend struct {
	backendv1.UnimplementedBackendServiceServer
	role     string
	children []int
	commands chan string

	litters atomic.Bool

	held     *os.File // by "hold"
	mu       sync.Mutex
	settings string
	revision uint64
}

func (b *backend) Configure(ctx context.Context, r *backendv1.ConfigureRequest) (*backendv1.ConfigureResponse, error) {
	settings := string(r.GetSettingsJson())
	answer := &backendv1.ConfigureResponse{Name: "test", Version: "1.2.3"}
	switch {
	case b.role == "configure-hang":
		<-ctx.Done() // and even then there is no answer
		select {}
	case b.role == "refuse", strings.Contains(settings, "refuse-me"):
		answer.Errors = []*backendv1.FieldError{{Field: "devices[2].memory", Message: "must be a power of two"}}
		return answer, nil
	case b.role == "grandchild" && b.children == nil:
		b.children = append(b.children, startSleeper(false))
	case b.role == "grandchild-escaped" && b.children == nil:
		b.children = append(b.children, startSleeper(true))
	case b.role == "reader":
		if os.Getenv(flagEnv) != "" {
			if err := b.waitForFlag(ctx); err != nil {
				return nil, err
			}
		}
		if answer.Errors = readFile(r); answer.Errors != nil {
			return answer, nil
		}
	case strings.Contains(settings, "hang-me"):
		<-ctx.Done()
		select {}
	}
	if b.role == "greedy" {
		ask(answer)
	}
	b.mu.Lock()
	b.settings = settings
	if b.role != "no-revision" {
		b.revision = r.GetRevision()
	}
	b.mu.Unlock()
	if !strings.Contains(settings, "ignore-me") {
		b.commands <- "changed"
	}
	return answer, nil
}

// inventory carries its process's state to the test in its problems.
func (b *backend) inventory(generation uint64) *backendv1.WatchResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	problems := []string{"settings " + b.settings, fmt.Sprintf("pid %d", os.Getpid()), "env " + strings.Join(os.Environ(), " ")}
	for _, pid := range b.children {
		problems = append(problems, fmt.Sprintf("child %d", pid))
	}
	return &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{
		Inventory: &backendv1.Inventory{Generation: generation, Problems: problems, SettingsRevision: b.revision},
	}}
}

func (b *backend) Watch(r *backendv1.WatchRequest, stream grpc.ServerStreamingServer[backendv1.WatchResponse]) error {
	heartbeat := &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Heartbeat{Heartbeat: &backendv1.Heartbeat{}}}
	ticker := time.NewTicker(r.GetHeartbeatInterval().AsDuration() / 3)
	defer ticker.Stop()
	generation := uint64(0)
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticker.C:
			_ = os.Remove(litter()) // not seen by who looks at each message
			if err := stream.Send(heartbeat); err != nil {
				return err
			}
			if b.litters.Load() {
				_ = os.WriteFile(litter(), make([]byte, 1<<20), 0o600)
			}
		case command := <-b.commands:
			switch command {
			case "changed":
				if b.role == "no-inventory" {
					continue
				}
				generation++
				if err := stream.Send(b.inventory(generation)); err != nil {
					return err
				}
			case "silence":
				<-stream.Context().Done()
			case "end":
				return nil
			case "swell":
				small := b.inventory(generation)
				// A device of empty links, two bytes each.
				small.GetInventory().ProtoReflect().SetUnknown(protowire.AppendBytes([]byte{2<<3 | 2}, bytes.Repeat([]byte{8<<3 | 2, 0}, 4_000_000)))
				if err := stream.Send(small); err != nil {
					return err
				}
			case "oversize":
				huge := b.inventory(generation)
				huge.GetInventory().Problems = []string{strings.Repeat("z", backendplugin.MaxMessageSize+1)}
				if err := stream.Send(huge); err != nil {
					return err
				}
			}
		}
	}
}

func (b *backend) Prepare(ctx context.Context, r *backendv1.PrepareRequest) (*backendv1.PrepareResponse, error) {
	switch command := r.GetDevices()[0].GetId(); command {
	case "crash":
		fmt.Fprintln(rawStderr, "[ERROR] the card fell off the bus")
		syscall.Exit(5)
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "flood":
		for range 20000 {
			_, _ = io.WriteString(rawStderr, "the same line again and again\n")
		}
	case "print":
		fmt.Println(strings.Repeat("printed through os.Stdout\n", 10000))
	case "bomb":
		startSleepers(10000)
	case "sleepers":
		startSleepers(600)
	case "hold": // and a child, too
		file, err := os.Open("/dev/full")
		if err == nil {
			child := exec.Command("/bin/sleep", "600")
			child.ExtraFiles = []*os.File{file}
			err = child.Start()
		}
		b.held = file
		return &backendv1.PrepareResponse{}, err
	case "litter":
		b.litters.Store(true)
	case "fail":
		return nil, status.Error(codes.FailedPrecondition, "the bitstream\x1b does not fit")
	case "wait", "slow":
		b.commands <- "changed"
		if err := b.waitForFlag(ctx); err != nil {
			return nil, err
		}
	case "dev-1":
	default:
		b.commands <- command
	}
	return &backendv1.PrepareResponse{}, nil
}

// litter is a file beside the socket.
func litter() string { return filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "litter") }

// rawStderr is standard error before go-plugin redirects it.
var rawStderr = os.Stderr

// waitForFlag blocks until the flag file exists or the call ends.
func (b *backend) waitForFlag(ctx context.Context) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(os.Getenv(flagEnv)); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (b *backend) Release(ctx context.Context, r *backendv1.ReleaseRequest) (*backendv1.ReleaseResponse, error) {
	if r.GetDevices()[0].GetId() == "wait" {
		b.commands <- "changed"
		if err := b.waitForFlag(ctx); err != nil {
			return nil, err
		}
	}
	return &backendv1.ReleaseResponse{}, nil
}
