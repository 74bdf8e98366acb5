package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// bare is a server of the device plugin API that has one list in memory.
type bare struct {
	pluginapi.UnimplementedDevicePluginServer
	devices []*pluginapi.Device
	// fail has the devices to fail, one after the other.
	fail <-chan int
	out  io.Writer
}

// serveBare registers a resource of its own with the kubelet of a directory. It reads
// how many devices it has and their IDs, and then the number of a device that is to
// fail; after each it writes when it sent the list.
func serveBare(dir, resource string, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Scan()
	count, err := strconv.Atoi(lines.Text())
	if err != nil {
		return fmt.Errorf("how many devices: %w", err)
	}
	fail := make(chan int)
	b := &bare{devices: make([]*pluginapi.Device, count), fail: fail, out: out}
	for i := range b.devices {
		lines.Scan()
		b.devices[i] = &pluginapi.Device{ID: lines.Text(), Health: pluginapi.Healthy}
	}
	socket := filepath.Join(dir, "bare.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	pluginapi.RegisterDevicePluginServer(server, b)
	go func() { _ = server.Serve(listener) }()
	if err := register(dir, filepath.Base(socket), resource); err != nil {
		return err
	}
	for lines.Scan() {
		i, err := strconv.Atoi(lines.Text())
		if err != nil || i < 0 || i >= count {
			return errors.Join(fmt.Errorf("device %q is to fail", lines.Text()), err)
		}
		fail <- i
	}
	return lines.Err()
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
		at := time.Now()
		if err := stream.Send(list); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(b.out, at.UnixNano()); err != nil {
			return err
		}
	}
}

func register(dir, endpoint, resource string) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = pluginapi.NewRegistrationClient(conn).Register(context.Background(), &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: endpoint, ResourceName: resource,
	})
	return err
}
