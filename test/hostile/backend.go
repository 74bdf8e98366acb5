package hostile

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/goplugin"
)

// look is how often it looks whether it is time for the misdeed.
const look = 10 * time.Millisecond

// rawStdout and rawStderr are the process's own: go-plugin puts pipes in their place.
var rawStdout, rawStderr = os.Stdout, os.Stderr

// Serve is the program: it ends with the process.
func Serve() {
	if path, left := os.LookupEnv(GrandchildEnv); left {
		outlive(path)
		return
	}
	deed := &Misdeed{}
	if name := os.Getenv(MisdeedEnv); name != "" {
		if deed = find(name); deed == nil {
			die(2, "there is no misdeed "+name)
		}
	}
	if deed.start != nil && on() {
		begin()
		deed.start()
	}
	if !deed.orphan {
		go endWithParent(os.Getppid())
	}
	b := &backend{deed: deed}
	options := []grpc.ServerOption{grpc.MaxSendMsgSize(2 * bigMessage), grpc.UnaryInterceptor(b.intercept)}
	if deed.serve != nil {
		deed.serve(b, options)
		return
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: goplugin.Handshake, VersionedPlugins: goplugin.Versions(b),
		Logger:     hclog.NewNullLogger(),
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server { return grpc.NewServer(append(o, options...)...) },
	})
}

// endWithParent ends the process when its parent is gone.
func endWithParent(parent int) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for range ticker.C {
		if os.Getppid() != parent {
			die(0, "the parent is gone")
		}
	}
}

// intercept lets the misdeed change what a call returns.
func (b *backend) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if b.deed.reply != nil && on() {
		begin()
		return b.deed.reply(request, answer, err)
	}
	return answer, err
}

// outlive is the grandchild's life.
func outlive(path string) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for range ticker.C {
		if _, err := os.Stat(path); err != nil {
			return
		}
	}
}

// backend is a sound one but for its misdeed.
type backend struct {
	backendv1.UnimplementedBackendServiceServer
	deed *Misdeed

	mu         sync.Mutex
	generation uint64
	revision   uint64
	heartbeat  time.Duration
}

// enter is the beginning of each call.
func (b *backend) enter(ctx context.Context, name string) {
	if b.deed.call != nil && b.deed.Call == name && on() {
		begin()
		b.deed.call(ctx)
	}
}

// Configure accepts no settings, as its manifest says.
func (b *backend) Configure(ctx context.Context, r *backendv1.ConfigureRequest) (*backendv1.ConfigureResponse, error) {
	b.enter(ctx, "Configure")
	answer := &backendv1.ConfigureResponse{Name: "hostile", Version: "1.0.0"}
	if settings := string(r.GetSettingsJson()); settings != "" && settings != "{}" {
		answer.Errors = []*backendv1.FieldError{{Message: "there are no settings"}}
	}
	if len(answer.GetErrors()) == 0 || b.deed.usesRefused {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.revision = r.GetRevision()
	}
	return answer, nil
}

// Watch sends the inventory, and another one whenever the misdeed begins or ends.
func (b *backend) Watch(r *backendv1.WatchRequest, stream watchStream) error {
	b.enter(stream.Context(), "Watch")
	if err := send(stream, b.inventory()); err != nil {
		return err
	}
	b.mu.Lock()
	b.heartbeat = r.GetHeartbeatInterval().AsDuration() / 3
	b.mu.Unlock()
	return b.loop(stream)
}

// loop watches whether it is time for the misdeed.
func (b *backend) loop(stream watchStream) error {
	looks, beats := time.NewTicker(look), time.NewTicker(b.interval())
	defer looks.Stop()
	defer beats.Stop()
	heartbeat := &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Heartbeat{Heartbeat: &backendv1.Heartbeat{}}}
	revision := b.newest()
	for was := false; ; {
		select {
		case <-stream.Context().Done():
			return nil
		case <-beats.C:
			if err := stream.Send(heartbeat); err != nil {
				return err
			}
			continue
		case <-looks.C:
		}
		is, now := on(), b.newest()
		if is == was && now == revision {
			continue
		}
		begins := is && !was
		was, revision = is, now
		switch {
		case begins && b.deed.loops():
			begin()
		case !is:
			end()
		}
		if begins && b.deed.running != nil {
			b.deed.running()
		}
		if is && b.deed.watch != nil {
			if err := b.deed.watch(b, stream); err != nil {
				return err
			}
			if was = on(); !was {
				end()
			}
			continue
		}
		next := b.inventory()
		if is && b.deed.lie != nil {
			b.deed.lie(next)
		}
		if err := send(stream, next); err != nil {
			return err
		}
	}
}

// newest is the revision of the settings.
func (b *backend) newest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision
}

func (b *backend) interval() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heartbeat
}

func send(stream watchStream, inventory *backendv1.Inventory) error {
	return stream.Send(&backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: inventory}})
}

// inventory are the sound devices, in a new generation. One of them needs a reset if
// the misdeed is to take place in one.
func (b *backend) inventory() *backendv1.Inventory {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generation++
	next := &backendv1.Inventory{Generation: b.generation, SettingsRevision: b.revision}
	for i := range Devices {
		next.Devices = append(next.Devices, device(fmt.Sprintf("hostile-%d", i)))
	}
	if b.deed.Call == "Reset" && on() {
		next.Devices[0].Health = &backendv1.Health{
			State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: "hostile", Message: "needs a reset",
			Recovery: backendv1.Recovery_RECOVERY_RESET,
		}
	}
	return next
}

// device is a sound one.
func device(id string) *backendv1.Device {
	return &backendv1.Device{
		Id: id, Class: "gpu", Health: &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY, Recovered: true},
		Attributes: map[string]*backendv1.Attribute{"model": {Value: &backendv1.Attribute_StringValue{StringValue: "H1"}}},
		Edits:      &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/hostile", HostPath: "/dev/null"}}},
		Hooks:      []backendv1.Hook{backendv1.Hook_HOOK_PREPARE, backendv1.Hook_HOOK_RELEASE},
	}
}

func metric(name string, value float64) *backendv1.Metric {
	return &backendv1.Metric{DeviceId: "hostile-0", Name: name, Kind: backendv1.MetricKind_METRIC_KIND_GAUGE, Value: value}
}

// Prepare implements the contract, as the three below.
func (b *backend) Prepare(ctx context.Context, r *backendv1.PrepareRequest) (*backendv1.PrepareResponse, error) {
	b.enter(ctx, "Prepare")
	if len(r.GetParametersJson()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "there are no parameters")
	}
	return &backendv1.PrepareResponse{}, nil
}

func (b *backend) Release(ctx context.Context, r *backendv1.ReleaseRequest) (*backendv1.ReleaseResponse, error) {
	b.enter(ctx, "Release")
	answer := &backendv1.ReleaseResponse{}
	for _, d := range r.GetDevices() {
		answer.Results = append(answer.Results, &backendv1.ReleaseResult{DeviceId: d.GetId(), Released: true})
	}
	return answer, nil
}

func (b *backend) Reset(ctx context.Context, r *backendv1.ResetRequest) (*backendv1.ResetResponse, error) {
	b.enter(ctx, "Reset")
	answer := &backendv1.ResetResponse{}
	for _, id := range r.GetDeviceIds() {
		answer.Results = append(answer.Results, &backendv1.ResetResult{DeviceId: id, Recovered: true})
	}
	return answer, nil
}

func (b *backend) Sample(r *backendv1.SampleRequest, stream sampleStream) error {
	b.enter(stream.Context(), "Sample")
	if b.deed.sample != nil && on() {
		begin()
		if err := b.deed.sample(stream); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(r.GetInterval().AsDuration())
	defer ticker.Stop()
	for {
		if err := stream.Send(samples(metric("load_ratio", 0.5))); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

// samples are metrics of now.
func samples(metrics ...*backendv1.Metric) *backendv1.SampleResponse {
	return &backendv1.SampleResponse{Time: timestamppb.Now(), Metrics: metrics}
}
