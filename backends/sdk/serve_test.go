package sdk

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
	"github.com/accelmux/accelmux/proto/goplugin"
	"github.com/accelmux/accelmux/test/patience"
)

// noDelay lets a child with the race detector exit without its usual second.
const noDelay = "GORACE=atexit_sleep_ms=0"

// socketDir returns a directory short enough for socket paths.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// connect starts this test binary as a backend, as the core does.
func connect(t *testing.T, mode string) (backendv1.BackendServiceClient, *plugin.Client, *logBuffer) {
	t.Helper()
	logs := &logBuffer{}
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{modeVar + "=" + mode, noDelay, backendplugin.SocketDirKey + "=" + socketDir(t)}
	c := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  goplugin.Handshake,
		VersionedPlugins: goplugin.Versions(nil),
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(backendplugin.MaxMessageSize)),
		},
		Logger: hclog.New(&hclog.LoggerOptions{Output: logs, Level: hclog.Trace}),
	})
	t.Cleanup(func() {
		// As the core does. go-plugin alone would try it for two seconds by a call that the contract
		// does not have.
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended on its own
		c.Kill()
	})
	proto, err := c.Client()
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, logs)
	}
	raw, err := proto.Dispense(goplugin.Name)
	if err != nil {
		t.Fatal(err)
	}
	client, ok := raw.(backendv1.BackendServiceClient)
	if !ok {
		t.Fatalf("dispensed %T", raw)
	}
	return client, c, logs
}

// logBuffer collects the lines that the core would log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func firstInventory(t *testing.T, ctx context.Context, c backendv1.BackendServiceClient) (*backendv1.Inventory, error) { //nolint:revive // a helper: t comes first
	t.Helper()
	stream, err := c.Watch(ctx, &backendv1.WatchRequest{HeartbeatInterval: durationpb.New(time.Second)})
	if err != nil {
		return nil, err
	}
	for {
		res, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if inv := res.GetInventory(); inv != nil {
			return inv, nil
		}
	}
}

// Messages of more than gRPC's usual 4 MiB arrive, in both directions.
func TestServeLargeMessages(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience.Long)
	defer cancel()
	client, _, _ := connect(t, "devices=8000")
	settings := []byte(`{` + strings.Repeat(" ", 5<<20) + `}`)
	if res, err := client.Configure(ctx, &backendv1.ConfigureRequest{SettingsJson: settings}); err != nil || len(res.GetErrors()) > 0 {
		t.Fatalf("Configure = %v, %v", res, err)
	}
	inv, err := firstInventory(t, ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(inv.GetDevices()); got != 8000 {
		t.Errorf("%d devices, want 8000", got)
	}
}

// A panic in the loop ends the process with code 2 and is logged as an error. What the backend
// logged before, and plain lines on standard error, arrive with their levels.
func TestServePanic(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience.Long)
	defer cancel()
	client, c, logs := connect(t, "panic")
	if _, err := firstInventory(t, ctx, client); err == nil {
		t.Fatal("Watch gave an inventory")
	}
	patience.Until(t, "the process to end", c.Exited)
	for _, want := range []string{"[WARN]", "a warning: device=d0", "plain line", "[ERROR]", "the loop is broken", "main_test.go"} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, logs)
		}
	}
}

// start runs a backend without go-plugin's client. It returns the process after its handshake,
// the fields of that, and the rest of its standard output.
func start(t *testing.T, mode, dir string, env ...string) (*exec.Cmd, []string, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(env, modeVar+"="+mode, noDelay, "PLUGIN_PROTOCOL_VERSIONS=1", backendplugin.SocketDirKey+"="+dir,
		backendplugin.CookieKey+"="+backendplugin.CookieValue)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("handshake: %v", err)
	}
	return cmd, strings.Split(strings.TrimSpace(line), "|"), r
}

// A loop that ignores its context does not keep the process alive.
func TestServeShutdownStubborn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience.Long)
	defer cancel()
	cmd, handshake, _ := start(t, "stubborn", socketDir(t))
	if _, err := firstInventory(t, ctx, dialAs(t, handshake, insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v, want exit code 0", err)
	}
	// How long the rest takes depends on the machine.
	if waits := loopGrace + serverGrace; waits > 1500*time.Millisecond {
		t.Errorf("it waits for %s; the core kills after 2 s", waits)
	}
}

// dialAs connects to a backend that start has started.
func dialAs(t *testing.T, handshake []string, creds credentials.TransportCredentials) backendv1.BackendServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+handshake[3], grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return backendv1.NewBackendServiceClient(conn)
}
