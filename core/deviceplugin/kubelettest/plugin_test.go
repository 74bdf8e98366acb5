package kubelettest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

// stub is the plainest device plugin.
type stub struct {
	pluginapi.UnimplementedDevicePluginServer
	path      string
	server    *grpc.Server
	options   *pluginapi.DevicePluginOptions
	lists     chan []*pluginapi.Device
	preferred []string
	broken    chan struct{} // closed: streams end

	mu       sync.Mutex
	asked    []*pluginapi.ContainerPreferredAllocationRequest
	started  int
	gone     chan struct{}
	done     chan struct{}
	opened   chan struct{} // one for every stream
	statuses chan *registerapi.RegistrationStatus
	info     *registerapi.PluginInfo
}

func (p *stub) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return p.options, nil
}

func (p *stub) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	// Kubelet has one stream at a time; a newer one ends the older, so that lists
	// reach the one that is alive.
	gone, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	p.mu.Lock()
	if p.gone != nil {
		close(p.gone)
		<-p.done
	}
	p.gone, p.done = gone, done
	p.mu.Unlock()
	p.opened <- struct{}{}
	for {
		select {
		case <-gone:
			return nil
		case list := <-p.lists:
			if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: list}); err != nil {
				return err
			}
		case <-p.broken:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *stub) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r.GetContainerRequests()[0])
	return &pluginapi.PreferredAllocationResponse{
		ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: p.preferred}},
	}, nil
}

func (p *stub) Allocate(_ context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"SHARED": filepath.Base(p.path)}}
	for _, id := range r.GetContainerRequests()[0].GetDevicesIds() {
		response.CdiDevices = append(response.CdiDevices, &pluginapi.CDIDevice{Name: "x.io/gpu=" + id})
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{response}}, nil
}

func (p *stub) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started++
	return &pluginapi.PreStartContainerResponse{}, nil
}

// registration is the watcher's side of a plugin.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	p *stub
}

func (r registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return r.p.info, nil
}

func (r registration) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	select {
	case r.p.statuses <- s:
	default:
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// serve starts a plugin on dir/name; resource is what it tells the watcher.
func serve(t *testing.T, dir, name string, options *pluginapi.DevicePluginOptions, resource ...string) *stub {
	t.Helper()
	p := &stub{
		path: filepath.Join(dir, name), server: grpc.NewServer(), options: options,
		lists: make(chan []*pluginapi.Device), broken: make(chan struct{}), opened: make(chan struct{}, 100),
		statuses: make(chan *registerapi.RegistrationStatus, 100),
		info:     &registerapi.PluginInfo{Type: registerapi.DevicePlugin, Name: gpu, SupportedVersions: []string{"v1beta1"}},
	}
	if len(resource) > 0 {
		p.info.Name = resource[0]
	}
	if p.options == nil {
		p.options = &pluginapi.DevicePluginOptions{}
	}
	listener, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	pluginapi.RegisterDevicePluginServer(p.server, p)
	registerapi.RegisterRegistrationServer(p.server, registration{p: p})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.server.Serve(listener)
	}()
	t.Cleanup(func() {
		p.server.Stop()
		<-done
	})
	return p
}

// send gives one of the plugin's streams a list.
func (p *stub) send(t *testing.T, devices ...*pluginapi.Device) {
	t.Helper()
	select {
	case p.lists <- devices:
	case <-time.After(patience.Long):
		t.Fatal("nobody listens to the plugin's list")
	}
}

// healthy are devices d0 to dn-1.
func healthy(n int) []*pluginapi.Device {
	var out []*pluginapi.Device
	for i := range n {
		out = append(out, &pluginapi.Device{ID: fmt.Sprintf("d%d", i), Health: pluginapi.Healthy})
	}
	return out
}

// start starts a stand-in with short intervals, and long limits.
func start(t *testing.T, change func(*Options)) *Kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Timing: Timing{
		Reconcile: 5 * time.Millisecond, RegisterBackoff: 5 * time.Millisecond,
		Dial: patience.Long, Info: patience.Long, Notify: patience.Long, PreStart: patience.Long,
	}}
	if change != nil {
		change(&opts)
	}
	k := New(dir, opts)
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Stop()
		_ = os.RemoveAll(dir)
	})
	return k
}

// register calls Register as a plugin does.
func register(t *testing.T, k *Kubelet, r *pluginapi.RegisterRequest) error {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.PluginDir(), "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = pluginapi.NewRegistrationClient(conn).Register(t.Context(), r)
	return err
}

func request(name string) *pluginapi.RegisterRequest {
	return &pluginapi.RegisterRequest{Version: "v1beta1", Endpoint: name, ResourceName: gpu}
}

// connect serves, registers and sends n devices.
func connect(t *testing.T, k *Kubelet, name string, options *pluginapi.DevicePluginOptions, n int) *stub {
	t.Helper()
	p := serve(t, k.PluginDir(), name, options)
	if err := register(t, k, request(name)); err != nil {
		t.Fatal(err)
	}
	p.send(t, healthy(n)...)
	wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == n })
	return p
}

func wait(t *testing.T, k *Kubelet, condition func(State) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Long)
	defer cancel()
	if err := k.WaitFor(ctx, condition); err != nil {
		t.Fatal(err)
	}
}
