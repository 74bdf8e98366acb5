package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
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

func (plain) Identity() (name, version string) { return "plain", "1.0.0" }

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
	// prepared is the argument of the last Prepare.
	prepared Preparation
}

func (a *able) Configure(_ context.Context, s json.RawMessage, h HostPaths) error {
	return a.configure(s, h)
}

func (a *able) Prepare(_ context.Context, p Preparation) (map[string]*Edits, error) {
	a.prepared = p
	return a.prepare()
}

func (a *able) Release(_ context.Context, holder Holder, devices []HeldDevice) (map[string]error, error) {
	switch holder.ID {
	case "all fail":
		return nil, errors.New("the card is gone")
	case "one fails":
		return map[string]error{devices[0].ID: errors.New("still in use")}, nil
	}
	return nil, nil
}

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
		if err := json.Unmarshal(s, &into); err != nil {
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
		"accepted":        {&able{configure: decode}, `{"count": 3}`, nil},
		"nothing is {}":   {&able{configure: decode}, ``, nil},
		"no whole number": {&able{configure: decode}, `{"count": 1.5}`, []*backendv1.FieldError{{Field: "count", Message: "the number 1.5 is not possible here"}}},
		"field error":     {&able{configure: func(json.RawMessage, HostPaths) error { return FieldErrors{{"a.b", "too big"}} }}, "", []*backendv1.FieldError{{Field: "a.b", Message: "too big"}}},
		"plain error":     {&able{configure: decode}, `{"count": 6}`, []*backendv1.FieldError{{Message: "that is too many"}}},
		"no settings":     {plain{}, `{}`, nil},
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

// Verifies that Prepare gets the core's arguments, and that parameters never reach a backend
// that accepts none.
func TestPreparation(t *testing.T) {
	prepare := func() (map[string]*Edits, error) { return nil, nil }
	taking := &able{prepare: prepare}
	request := &backendv1.PrepareRequest{
		Resource: "example.com/gpu", Holder: &backendv1.Holder{Id: "h", Kind: HolderClaim},
		Devices: []*backendv1.HeldDevice{{Id: "d"}, {Id: "e", Shared: true, Capacities: map[string]int64{"memory": 7}}},
	}
	client, _ := dial(t, taking)
	for asked, want := range map[string]string{"": "{}", `{"program": "a"}`: `{"program": "a"}`} {
		request.ParametersJson = []byte(asked)
		if _, err := client.Prepare(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		want := Preparation{
			Holder: Holder{ID: "h", Kind: HolderClaim}, Resource: "example.com/gpu", Parameters: json.RawMessage(want),
			Devices: []HeldDevice{{ID: "d"}, {ID: "e", Shared: true, Capacities: map[string]int64{"memory": 7}}},
		}
		if d := cmp.Diff(want, taking.prepared); d != "" {
			t.Errorf("the backend was asked for (-want +got):\n%s", d)
		}
	}
	if p := taking.prepared; !slices.Equal(p.IDs(), []string{"d", "e"}) || !slices.Equal(p.Shared(), []string{"e"}) {
		t.Errorf("IDs %v, shared %v", p.IDs(), p.Shared())
	}
}

// Verifies that Release returns a result for each device, and that an error is the result of
// all.
func TestRelease(t *testing.T) {
	client, _ := dial(t, &able{})
	release := func(holder string) (string, error) {
		res, err := client.Release(t.Context(), &backendv1.ReleaseRequest{
			Holder: &backendv1.Holder{Id: holder}, Devices: []*backendv1.HeldDevice{{Id: "d"}, {Id: "e", Shared: true}},
		})
		var results []string
		for _, r := range res.GetResults() {
			results = append(results, fmt.Sprintf("%s %v %s", r.GetDeviceId(), r.GetReleased(), r.GetMessage()))
		}
		return strings.Join(results, ","), err
	}
	for holder, want := range map[string]string{"h": "d true ,e true ", "one fails": "d false still in use,e true "} {
		if got, err := release(holder); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", holder, got, err, want)
		}
	}
	if _, err := release("all fail"); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "the card is gone") {
		t.Errorf("all fail: %v", err)
	}
}

// nameless has no name.
type nameless struct{ plain }

func (nameless) Identity() (name, version string) { return "", "1.0.0" }

// Verifies what the identity in a manifest is, and that a backend without a name is not served.
func TestIdentity(t *testing.T) {
	for manifest, want := range map[string]string{
		"name: acme\nvendor: Acme\nversion: 1.0.0\n":                             "acme 1.0.0",
		"kind: Backend\r\nname: 'acme' # a label\r\nversion: \"1.0.0-rc.1\"\r\n": "acme 1.0.0-rc.1",
		"attributes:\n- name: model\n  version: 2.0.0\nrename: x\n":              " ",
	} {
		if name, version := Identity(manifest); name+" "+version != want {
			t.Errorf("%q: %s %s, want %s", manifest, name, version, want)
		}
	}
	if _, err := NewServer(nameless{}, nil); err == nil || !strings.Contains(err.Error(), "lacks a name or a version") {
		t.Errorf("%v, want an error", err)
	}
}

// A backend with settings is not watched before it has accepted any.
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
		return client.Prepare(ctx, &backendv1.PrepareRequest{Devices: []*backendv1.HeldDevice{{Id: "d"}}})
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

// slow samples until it is released, whatever its context, as a driver's call that hangs.
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

// Verifies that Sample is never called twice at the same time, although a cancelled stream still
// waits for its own sample when the next stream begins.
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
	// The server has the second stream once it has answered a later call.
	if _, err := client.Configure(t.Context(), &backendv1.ConfigureRequest{}); err != nil {
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
