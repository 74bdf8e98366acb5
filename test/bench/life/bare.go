package life

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// bareRole is the name of the process that serveBare is.
const bareRole = "kubelet-floor"

// serveBare is a device plugin that does nothing but register: as many resources as the
// agent has, each on a gRPC server of its own, as soon as a kubelet.sock comes and
// accepts. Its one argument is kubelet's directory of device plugins.
func serveBare(args []string) error {
	if len(args) != 1 {
		return errors.New("the bare device plugin needs kubelet's directory")
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }() // the process ends
	if err := watcher.Add(args[0]); err != nil {
		return err
	}
	socket := filepath.Join(args[0], "kubelet.sock")
	var servers []*grpc.Server
	for life := 0; ; life++ {
		for _, server := range servers {
			server.Stop()
		}
		servers = nil
		failed := make(chan error, len(backends))
		for _, name := range backends {
			server := grpc.NewServer()
			servers = append(servers, server)
			go func() {
				failed <- registerBare(server, args[0], socket, fmt.Sprintf("bare-%s-%d.sock", name, life), resource(name))
			}()
		}
		for range backends {
			if err := <-failed; err != nil {
				return err
			}
		}
		for event := range watcher.Events {
			if event.Name == socket && event.Has(fsnotify.Create) {
				break
			}
		}
	}
}

func registerBare(server *grpc.Server, dir, socket, endpoint, resource string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for { // as long as kubelet does not accept, it may delete sockets
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			_ = conn.Close() // nothing was written
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, endpoint))
	if err != nil {
		return err
	}
	pluginapi.RegisterDevicePluginServer(server, bare{})
	go func() { _ = server.Serve(listener) }() // it ends with Stop
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: endpoint, ResourceName: resource,
	})
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "the bare device plugin:", err) // kubelet went again
	}
	return conn.Close()
}

// bare lists devices that are healthy.
type bare struct {
	pluginapi.UnimplementedDevicePluginServer
}

func (bare) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (bare) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	list := &pluginapi.ListAndWatchResponse{}
	for i := range units {
		list.Devices = append(list.Devices, &pluginapi.Device{ID: fmt.Sprintf("bare-%d", i), Health: pluginapi.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}
