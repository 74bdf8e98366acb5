package realkubelet

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registrationapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const foo = "example.com/foo"

// plug is the least device plugin that shows that the harness works. It answers
// each allocation with one CDI name a device.
type plug struct {
	pluginapi.UnimplementedDevicePluginServer
	path   string
	server *grpc.Server

	mu       sync.Mutex
	devices  []*pluginapi.Device
	changed  chan struct{} // closed and replaced at every change
	prestart error
}

// startPlug serves devices on a socket in dir.
func startPlug(t *testing.T, dir, name string, devices []*pluginapi.Device) *plug {
	t.Helper()
	p := &plug{path: filepath.Join(dir, name), server: grpc.NewServer(), devices: devices, changed: make(chan struct{})}
	pluginapi.RegisterDevicePluginServer(p.server, p)
	registrationapi.RegisterRegistrationServer(p.server, watched{})
	listener, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = p.server.Serve(listener) }) // ends with Stop
	t.Cleanup(func() {
		p.server.Stop()
		done.Wait()
	})
	return p
}

// register registers over kubelet's socket.
func (p *plug) register(ctx context.Context, kubeletDir string) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(kubeletDir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: filepath.Base(p.path), ResourceName: foo,
	})
	return errors.Join(err, conn.Close())
}

// publish replaces the devices.
func (p *plug) publish(devices []*pluginapi.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = devices
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *plug) failPreStart(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prestart = err
}

func (p *plug) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{PreStartRequired: true}, nil
}

func (p *plug) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	for {
		p.mu.Lock()
		devices, changed := p.devices, p.changed
		p.mu.Unlock()
		if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (p *plug) Allocate(_ context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	out := &pluginapi.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		answer := &pluginapi.ContainerAllocateResponse{}
		for _, id := range c.DevicesIds {
			answer.CdiDevices = append(answer.CdiDevices, &pluginapi.CDIDevice{Name: "example.com/foo=" + id})
		}
		out.ContainerResponses = append(out.ContainerResponses, answer)
	}
	return out, nil
}

func (p *plug) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pluginapi.PreStartContainerResponse{}, p.prestart
}

// watched is the plug's side of the plugin watcher.
type watched struct {
	registrationapi.UnimplementedRegistrationServer
}

func (watched) GetInfo(context.Context, *registrationapi.InfoRequest) (*registrationapi.PluginInfo, error) {
	return &registrationapi.PluginInfo{
		Type: registrationapi.DevicePlugin, Name: foo, SupportedVersions: []string{pluginapi.Version},
	}, nil
}

func (watched) NotifyRegistrationStatus(context.Context, *registrationapi.RegistrationStatus) (*registrationapi.RegistrationStatusResponse, error) {
	return &registrationapi.RegistrationStatusResponse{}, nil
}

// devices makes n healthy devices, the first half on NUMA node 0, the rest on 1.
func devices(n int) []*pluginapi.Device {
	var out []*pluginapi.Device
	for i := range n {
		out = append(out, &pluginapi.Device{
			ID:       "foo" + string(rune('a'+i)),
			Health:   pluginapi.Healthy,
			Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(i * 2 / n)}}},
		})
	}
	return out
}

// soon bounds what a test waits for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
