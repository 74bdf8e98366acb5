package exporter

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/accelmux/accelmux/backends/pci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// state is a GPU as the exporter's server describes it: field name, value …
type state map[string]string

// fieldNumbers are those of the fields of a GPUState of the exporter's metricssvc.proto.
var fieldNumbers = map[string]protowire.Number{"ID": 1, "UUID": 2, "Health": 3, "AssociatedWorkload": 4, "Device": 5}

// answer returns a GPUStateResponse.
func answer(states ...state) proto.Message {
	var wire []byte
	for _, s := range states {
		var gpu []byte
		for name, value := range s {
			gpu = protowire.AppendString(protowire.AppendTag(gpu, fieldNumbers[name], protowire.BytesType), value)
		}
		wire = protowire.AppendBytes(protowire.AppendTag(wire, 1, protowire.BytesType), gpu)
	}
	return unknown(wire)
}

// serve returns an exporter that answers with what reply gives.
func serve(t *testing.T, reply func(ctx context.Context) (proto.Message, error)) Client {
	t.Helper()
	return serveAs(t, "metricssvc.MetricsService", reply)
}

func serveAs(t *testing.T, service string, reply func(ctx context.Context) (proto.Message, error)) Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "exporter") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "List",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				if err := decode(&emptypb.Empty{}); err != nil {
					return nil, err
				}
				return reply(ctx)
			}}},
	}, nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return Client{Socket: socket}
}

func says(m proto.Message) func(context.Context) (proto.Message, error) {
	return func(context.Context) (proto.Message, error) { return m, nil }
}

// The state of each GPU is read; states in other words are unknown.
func TestList(t *testing.T) {
	c := serve(t, says(answer(
		state{"ID": "0", "UUID": "u0", "Health": "healthy", "Device": "0000:c1:00.0", "AssociatedWorkload": "pod : a"},
		state{"ID": "1", "Health": "unhealthy", "Device": "0001:0a:00.0"},
		state{"ID": "2", "Health": "Unhealthy"},
		state{"ID": "3", "Health": "unknown", "Device": "here"},
		state{"ID": "4", "Health": "on fire", "Device": "0000:c2:00.0"},
		state{},
	)))
	at := func(text string) pci.Address {
		a, err := pci.ParseAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	want := []GPU{
		{State: Healthy, Text: "healthy", PCI: at("0000:c1:00.0"), HasPCI: true},
		{State: Unhealthy, Text: "unhealthy", PCI: at("0001:0a:00.0"), HasPCI: true},
		{State: Unhealthy, Text: "Unhealthy"},
		{State: Unknown, Text: "unknown"},
		{State: Unknown, Text: "on fire", PCI: at("0000:c2:00.0"), HasPCI: true},
		{},
	}
	for range 2 { // a client asks again and again
		got, err := c.List(t.Context())
		if err != nil || !cmp.Equal(want, got) {
			t.Error(err, cmp.Diff(want, got))
		}
	}
	if got, err := serve(t, says(answer())).List(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("no GPUs: %v, %v", got, err)
	}
}

// The service has one of two names; an exporter with neither is an error.
func TestNames(t *testing.T) {
	reply := says(answer(state{"Health": "healthy"}))
	got, err := serveAs(t, "gpumetricssvc.MetricsService", reply).List(t.Context())
	if err != nil || len(got) != 1 || got[0].State != Healthy {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := serveAs(t, "other.MetricsService", reply).List(t.Context()); err == nil || got != nil || errors.Is(err, ErrAbsent) {
		t.Errorf("%v, %v", got, err)
	}
}

// Without an exporter there is one error, whatever is at the path of the socket.
func TestAbsent(t *testing.T) {
	dir, err := os.MkdirTemp("", "exporter")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if _, err := (Client{Socket: filepath.Join(dir, "none")}).List(t.Context()); !errors.Is(err, ErrAbsent) {
		t.Errorf("no socket: %v", err)
	}
	left := filepath.Join(dir, "left")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", left)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (Client{Socket: left}).List(t.Context()); !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), left) {
		t.Errorf("a socket that an exporter left behind: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Client{Socket: file}).List(t.Context()); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := (Client{Socket: filepath.Join(file, "s")}).List(t.Context()); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("under a file: %v", err)
	}
}

// With an exporter that fails, or gives a malformed answer, nothing is known of any GPU.
func TestOddAnswers(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	many := make([]state, maxGPUs+1)
	for name, c := range map[string]struct {
		reply proto.Message
		err   error
		want  string
	}{
		"an error":          {err: status.Error(codes.Internal, "agent is away"), want: "agent is away"},
		"no permission":     {err: status.Error(codes.PermissionDenied, "not you"), want: "not you"},
		"too long a text":   {reply: answer(state{"Health": "healthy"}, state{"Health": long}), want: "field 3 of a GPU"},
		"too many GPUs":     {reply: answer(many...), want: "more than 1024 GPUs"},
		"too long a whole":  {reply: answer(state{"AssociatedWorkload": strings.Repeat("x", maxAnswer)}), want: "larger than max"},
		"not the message":   {reply: unknown(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0xff})), want: "malformed answer"},
		"cut off":           {reply: unknown(append(protowire.AppendTag(nil, 1, protowire.BytesType), 5, 'x')), want: ""},
		"health in numbers": {reply: unknown(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{3 << 3, 2})), want: "-"},
	} {
		gpus, err := serve(t, func(context.Context) (proto.Message, error) { return c.reply, c.err }).List(t.Context())
		if c.want == "-" { // another type than what is known is as good as missing
			if err != nil || !cmp.Equal(gpus, []GPU{{}}) {
				t.Errorf("%s: %+v, %v", name, gpus, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrAbsent) || gpus != nil {
			t.Errorf("%s: %v, %v; want %q", name, gpus, err, c.want)
		}
	}
}

// unknown returns a message that is these bytes on the wire.
func unknown(wire []byte) proto.Message {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(wire)
	return m
}

// A question to an exporter that hangs ends with the caller's context, or after Timeout.
func TestHangs(t *testing.T) {
	held := make(chan struct{})
	c := serve(t, func(ctx context.Context) (proto.Message, error) {
		held <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held
		cancel()
	}()
	if gpus, err := c.List(ctx); status.Code(errors.Unwrap(err)) != codes.Canceled || gpus != nil {
		t.Errorf("%v, %v", gpus, err)
	}
}

func FuzzParse(f *testing.F) {
	whole, err := proto.Marshal(answer(state{"ID": "0", "Health": "healthy", "Device": "0000:c1:00.0"}, state{"Health": "unhealthy"}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, message []byte) {
		gpus, err := parse(message)
		if err != nil && gpus != nil {
			t.Errorf("both %v and %v", gpus, err)
		}
		for _, gpu := range gpus {
			if gpu.State != Unknown && !strings.EqualFold(gpu.Text, gpu.State.String()) {
				t.Errorf("%+v", gpu)
			}
		}
	})
}
