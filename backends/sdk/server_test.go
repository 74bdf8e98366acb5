package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// plain implements nothing optional.
type plain struct {
	watch func(context.Context, *Reporter) error
}

func (plain) Describe() Description {
	return Description{Name: "plain", Vendor: "Test", Version: "1.0.0", Classes: []string{"gpu"}}
}

func (p plain) Watch(ctx context.Context, out *Reporter) error {
	if p.watch != nil {
		return p.watch(ctx, out)
	}
	out.Publish(manyDevices(1))
	<-ctx.Done()
	return ctx.Err()
}

// able implements everything.
type able struct {
	plain
	configure func(json.RawMessage, HostPaths) error
	prepare   func() (map[string]*Edits, error)
	// prepared is what Prepare was asked for last.
	prepared Preparation
}

// knowing is one that knows parameters.
type knowing struct{ able }

func (k *knowing) Describe() Description {
	d := k.able.Describe()
	d.Parameters = []Parameter{{"program", "What is loaded."}, {"mode", "How it runs."}}
	return d
}

func (a *able) Configure(_ context.Context, s json.RawMessage, h HostPaths) error {
	return a.configure(s, h)
}

func (a *able) Prepare(_ context.Context, p Preparation) (map[string]*Edits, error) {
	a.prepared = p
	return a.prepare()
}
func (a *able) Release(context.Context, []string) error { return nil }

func (a *able) Reset(_ context.Context, devices []string) ([]*ResetResult, error) {
	return []*ResetResult{{DeviceId: devices[0], Recovered: true}}, nil
}

func (a *able) Sample(context.Context) ([]*Metric, error) {
	return []*Metric{Gauge("d", "power_watts", 1)}, nil
}

// dial serves b in this process.
func dial(t *testing.T, b Backend) (backendv1.BackendServiceClient, *bytes.Buffer) {
	t.Helper()
	logs := &bytes.Buffer{}
	server, err := NewServer(b, newLogger(logs))
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	backendv1.RegisterBackendServiceServer(g, server)
	l := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(l)
	}()
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if err := server.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		g.Stop()
		<-served
	})
	return backendv1.NewBackendServiceClient(conn), logs
}

func TestDescribeDerivesAbilities(t *testing.T) {
	for name, tc := range map[string]struct {
		backend Backend
		want    []backendv1.Ability
	}{
		"plain": {plain{}, nil},
		"able": {&able{}, []backendv1.Ability{
			backendv1.Ability_ABILITY_PREPARE, backendv1.Ability_ABILITY_RELEASE,
			backendv1.Ability_ABILITY_RESET, backendv1.Ability_ABILITY_SAMPLE,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := dial(t, tc.backend)
			got, err := client.Describe(t.Context(), &backendv1.DescribeRequest{})
			if err != nil {
				t.Fatal(err)
			}
			want := &backendv1.DescribeResponse{
				Name: "plain", Vendor: "Test", Version: "1.0.0", Classes: []string{"gpu"}, Abilities: tc.want,
			}
			if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestUnimplementedCalls(t *testing.T) {
	client, _ := dial(t, plain{})
	ctx := t.Context()
	_, prepare := client.Prepare(ctx, &backendv1.PrepareRequest{})
	_, release := client.Release(ctx, &backendv1.ReleaseRequest{})
	_, reset := client.Reset(ctx, &backendv1.ResetRequest{})
	stream, err := client.Sample(ctx, &backendv1.SampleRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, sample := stream.Recv()
	for call, err := range map[string]error{"Prepare": prepare, "Release": release, "Reset": reset, "Sample": sample} {
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), call) {
			t.Errorf("%s: %v, want Unimplemented", call, err)
		}
	}
}

func TestConfigure(t *testing.T) {
	type settings struct {
		Count int `json:"count"`
	}
	var got HostPaths
	decode := func(s json.RawMessage, h HostPaths) error {
		got = h
		var into settings
		if err := DecodeSettings(s, &into); err != nil {
			return err
		}
		if into.Count > 5 {
			return errors.New("that is too many")
		}
		return nil
	}
	for name, tc := range map[string]struct {
		backend  Backend
		settings string
		want     []*backendv1.FieldError
	}{
		"accepted":            {&able{configure: decode}, `{"count": 3}`, nil},
		"nothing is {}":       {&able{configure: decode}, ``, nil},
		"field error":         {&able{configure: decode}, `{"count": "x"}`, []*backendv1.FieldError{{Field: "count", Message: `want a whole number, got "x"`}}},
		"plain error":         {&able{configure: decode}, `{"count": 6}`, []*backendv1.FieldError{{Message: "that is too many"}}},
		"no settings":         {plain{}, `{}`, nil},
		"no settings, unused": {plain{}, `{"a": 1}`, []*backendv1.FieldError{{Field: "a", Message: "unknown field; there are: "}}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := dial(t, tc.backend)
			res, err := client.Configure(t.Context(), &backendv1.ConfigureRequest{SettingsJson: []byte(tc.settings), Paths: &backendv1.HostPaths{Devfs: "/host/dev"}})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, res.GetErrors(), protocmp.Transform()); d != "" {
				t.Error(d)
			}
		})
	}
	if want := (HostPaths{Sysfs: "/sys", Devfs: "/host/dev", Procfs: "/proc"}); got != want {
		t.Errorf("host paths %+v, want %+v", got, want)
	}
}

func TestConfigureRelativePath(t *testing.T) {
	client, _ := dial(t, plain{})
	_, err := client.Configure(t.Context(), &backendv1.ConfigureRequest{Paths: &backendv1.HostPaths{Sysfs: "sys"}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v, want InvalidArgument", err)
	}
}

// Verifies that what the core asks of Prepare arrives, that the description names the
// parameters, and that one which it does not name never gets to the backend.
func TestPrepareParameters(t *testing.T) {
	prepare := func() (map[string]*Edits, error) { return nil, nil }
	none := &able{prepare: prepare}
	some := &knowing{able{prepare: prepare}}
	for name, tc := range map[string]struct {
		backend    Backend
		parameters map[string]string
		want       string
	}{
		"nothing is asked": {none, nil, ""},
		"known":            {some, map[string]string{"program": "a"}, ""},
		"all of them":      {some, map[string]string{"program": "a", "mode": "b"}, ""},
		"one is unknown":   {some, map[string]string{"program": "a", "moed": "b"}, "backend plain does not know the parameter moed; it knows program, mode: correct the parameters of the resource"},
		"knows none":       {none, map[string]string{"b": "1", "a": "2"}, "does not know the parameter a, b; it knows none"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := dial(t, tc.backend)
			_, err := client.Prepare(t.Context(), &backendv1.PrepareRequest{
				Resource: "example.com/gpu", DeviceIds: []string{"d", "e"}, Parameters: tc.parameters, SharedDeviceIds: []string{"e"},
			})
			if tc.want != "" {
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Preparation{Resource: "example.com/gpu", Devices: []string{"d", "e"}, Parameters: tc.parameters, Shared: []string{"e"}}
			a, ok := tc.backend.(*able)
			if !ok {
				a = &tc.backend.(*knowing).able
			}
			if d := cmp.Diff(want, a.prepared); d != "" {
				t.Errorf("the backend was asked for (-want +got):\n%s", d)
			}
		})
	}
	client, _ := dial(t, some)
	d, err := client.Describe(t.Context(), &backendv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := []*backendv1.Parameter{{Name: "program", Description: "What is loaded."}, {Name: "mode", Description: "How it runs."}}
	if d := cmp.Diff(want, d.GetParameters(), protocmp.Transform()); d != "" {
		t.Error(d)
	}
}

// A backend with settings is not watched before it has accepted some.
func TestWatchBeforeConfigure(t *testing.T) {
	client, _ := dial(t, &able{configure: func(json.RawMessage, HostPaths) error { return errors.New("never") }})
	if _, err := client.Configure(t.Context(), &backendv1.ConfigureRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := firstInventory(t, t.Context(), client); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v, want FailedPrecondition", err)
	}
}

func TestCalls(t *testing.T) {
	a := &able{}
	client, logs := dial(t, a)
	ctx := t.Context()
	prepare := func() (*backendv1.PrepareResponse, error) {
		return client.Prepare(ctx, &backendv1.PrepareRequest{DeviceIds: []string{"d"}})
	}

	a.prepare = func() (map[string]*Edits, error) { return map[string]*Edits{"d": Nodes("/dev/d")}, nil }
	if res, err := prepare(); err != nil || len(res.GetEdits()["d"].GetDeviceNodes()) != 1 {
		t.Errorf("Prepare = %v, %v", res, err)
	}
	a.prepare = func() (map[string]*Edits, error) { return nil, errors.New("the card is dirty") }
	if _, err := prepare(); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "the card is dirty") {
		t.Errorf("Prepare: %v", err)
	}
	a.prepare = func() (map[string]*Edits, error) { return nil, status.Error(codes.NotFound, "gone") }
	if _, err := prepare(); status.Code(err) != codes.NotFound {
		t.Errorf("Prepare: %v, want the backend's own status", err)
	}
	a.prepare = func() (map[string]*Edits, error) { panic("oops") }
	if _, err := prepare(); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "panicked in Prepare: oops") {
		t.Errorf("Prepare: %v, want the panic", err)
	}
	if !strings.Contains(logs.String(), `"@level":"error"`) || !strings.Contains(logs.String(), "server_test.go") {
		t.Errorf("the log lacks the panic's stack: %s", logs)
	}
	if _, err := client.Release(ctx, &backendv1.ReleaseRequest{}); err != nil {
		t.Error(err)
	}
	if res, err := client.Reset(ctx, &backendv1.ResetRequest{DeviceIds: []string{"d"}}); err != nil || !res.GetResults()[0].GetRecovered() {
		t.Errorf("Reset = %v, %v", res, err)
	}
	stream, err := client.Sample(ctx, &backendv1.SampleRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := stream.Recv(); err != nil || len(res.GetMetrics()) != 1 || res.GetTime() == nil {
		t.Errorf("Sample = %v, %v", res, err)
	}
}

func TestNewServerIncomplete(t *testing.T) {
	if _, err := NewServer(incomplete{}, slog.Default()); err == nil {
		t.Error("a description without classes was accepted")
	}
}

type incomplete struct{ plain }

func (incomplete) Describe() Description {
	return Description{Name: "x", Vendor: "x", Version: "1.0.0"}
}

// slow samples until it is let go, whatever its context says, as a driver's call
// that hangs.
type slow struct {
	plain
	begun chan struct{}
	let   chan struct{}
	calls atomic.Int32
}

func (s *slow) Sample(context.Context) ([]*Metric, error) {
	s.calls.Add(1)
	s.begun <- struct{}{}
	<-s.let
	return nil, nil
}

// Verifies that a backend is never asked for two samples at once, though a stream
// that was cancelled still waits for its own when the next one comes.
func TestSampleOnce(t *testing.T) {
	backend := &slow{begun: make(chan struct{}, 2), let: make(chan struct{})}
	client, _ := dial(t, backend)
	first, cancel := context.WithCancel(t.Context())
	if _, err := client.Sample(first, &backendv1.SampleRequest{}); err != nil {
		t.Fatal(err)
	}
	<-backend.begun
	cancel()
	second, err := client.Sample(t.Context(), &backendv1.SampleRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// The server has the second stream when it has answered a call that came later.
	if _, err := client.Describe(t.Context(), &backendv1.DescribeRequest{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-backend.begun:
		t.Error("asked for a second sample before the first one was there")
	case <-time.After(50 * time.Millisecond):
	}
	close(backend.let)
	if _, err := second.Recv(); err != nil || backend.calls.Load() != 2 {
		t.Errorf("the second stream: %v, %d samples", err, backend.calls.Load())
	}
}
