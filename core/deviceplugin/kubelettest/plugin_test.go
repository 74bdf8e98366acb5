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

	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

// stub is the plainest device plugin.
type stub struct {
	pluginapi.UnimplementedDevicePluginServer
	path   string
	server *grpc.Server
	lists  chan []*pluginapi.Device
	broken chan struct{} // closed: streams end

	mu   sync.Mutex
	gone chan struct{}
	done chan struct{}
}

func (p *stub) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
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

func (p *stub) Allocate(_ context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.ContainerAllocateResponse{}
	for _, id := range r.GetContainerRequests()[0].GetDevicesIds() {
		response.CdiDevices = append(response.CdiDevices, &pluginapi.CDIDevice{Name: "x.io/gpu=" + id})
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{response}}, nil
}

// serve starts a plugin on dir/name.
func serve(t *testing.T, dir, name string) *stub {
	t.Helper()
	p := &stub{
		path: filepath.Join(dir, name), server: grpc.NewServer(),
		lists: make(chan []*pluginapi.Device), broken: make(chan struct{}),
	}
	listener, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	pluginapi.RegisterDevicePluginServer(p.server, p)
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

// start starts a stand-in, which waits long for a plugin on a busy machine.
func start(t *testing.T, legacy bool) *Kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	k := New(dir, Options{Legacy: legacy, Timing: Timing{Dial: patience.Long}})
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
func connect(t *testing.T, k *Kubelet, name string, n int) *stub {
	t.Helper()
	p := serve(t, k.PluginDir(), name)
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
