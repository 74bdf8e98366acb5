package scale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// bareResource is that of the bare server.
const bareResource = "example.com/floor"

// bare is the floor: a server of the device plugin API with one list in memory.
type bare struct {
	pluginapi.UnimplementedDevicePluginServer
	devices []*pluginapi.Device
	server  *grpc.Server
	// fail has the devices to fail, one after the other; sent is when each list was sent, and
	// lists are those that kubelet got.
	fail  chan int
	sent  chan time.Time
	lists chan kubelettest.Event
}

func newBare() *bare {
	return &bare{fail: make(chan int), sent: make(chan time.Time, 1), lists: make(chan kubelettest.Event, 16)}
}

// take is kubelettest.Options.OnEvent.
func (b *bare) take(e kubelettest.Event) {
	if e.Type == kubelettest.EventDevices && e.Resource == bareResource {
		b.lists <- e
	}
}

// serve registers the resource with the kubelet of a directory, with so many devices, whose IDs
// are as long as the mock backend's.
func (b *bare) serve(dir string, count int) error {
	for i := range count {
		b.devices = append(b.devices, &pluginapi.Device{ID: fmt.Sprintf("mock-%d", i), Health: pluginapi.Healthy})
	}
	socket := filepath.Join(dir, "bare.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	b.server = grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(b.server, b)
	go func() { _ = b.server.Serve(listener) }() // it ends with stop
	conn, err := rig.Dial(filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		return err
	}
	_, err = pluginapi.NewRegistrationClient(conn).Register(context.Background(), &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: filepath.Base(socket), ResourceName: bareResource,
	})
	if err = errors.Join(err, conn.Close()); err != nil {
		return err
	}
	_, err = b.await(count)
	return err
}

func (b *bare) stop() {
	if b.server != nil {
		b.server.Stop()
	}
}

// await waits until kubelet has a list with so many healthy devices, and returns since when.
func (b *bare) await(healthy int) (time.Time, error) {
	limit := time.After(rig.Patience)
	for {
		select {
		case e := <-b.lists:
			if e.Healthy == healthy {
				return e.At, nil
			}
		case <-limit:
			return time.Time{}, fmt.Errorf("kubelet does not have %d healthy devices of %s within %v", healthy, bareResource, rig.Patience)
		}
	}
}

// list times one list, in which another device is unhealthy.
func (b *bare) list(device int) (time.Duration, error) {
	b.fail <- device
	sent := <-b.sent
	at, err := b.await(len(b.devices) - 1)
	return at.Sub(sent), err
}

// GetDevicePluginOptions has none.
func (b *bare) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

// ListAndWatch sends the list at once, and for each device that fails.
func (b *bare) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	list := &pluginapi.ListAndWatchResponse{Devices: b.devices}
	if err := stream.Send(list); err != nil {
		return err
	}
	failed := 0
	for {
		select {
		case i := <-b.fail:
			b.devices[failed].Health = pluginapi.Healthy
			failed, b.devices[i].Health = i, pluginapi.Unhealthy
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		b.sent <- time.Now()
		if err := stream.Send(list); err != nil {
			return err
		}
	}
}
