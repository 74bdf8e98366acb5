package agent

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/conflict"
)

// quickConflicts lets the agent compare its devices with kubelet's all the time.
func quickConflicts(options *agent.Options) {
	options.Timing.Conflict = conflict.Timing{Compare: 50 * time.Millisecond, Confirm: 50 * time.Millisecond}
}

// A vendor's plugin that was left in place: kubelet's devices are not those that the agent
// advertises. Status, the log and an Event report it, with the devices and what to do; the
// agent does not register again while that plugin is there, and once when it was removed:
// then kubelet has our devices.
func TestVendorsPluginLeftInPlace(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, quickConflicts)
	stop := startVendorsPlugin(t, n, "vendor.sock", gpu, "GPU-1", "GPU-2")
	n.wantProblem(gpu, "kubelet's devices of "+gpu+" are not those of this agent", "it has GPU-1, GPU-2; it lacks mock-0, mock-1, mock-2 and 1 more", "Remove it")
	if missing := strings.Join(n.agent.Report().NotReady, "; "); !strings.Contains(missing, "kubelet may not have resource "+gpu+" from this agent") {
		t.Errorf("the agent is ready but for %q", missing)
	}
	if got := n.registrations(gpu); got != 1 {
		t.Errorf("the resource was registered %d times, want once", got)
	}
	stop()
	n.wantCounts(gpu, 4, 4)
	n.eventually("the problem is over", func() bool {
		return !strings.Contains(n.problems(), "are not those of this agent") && len(n.agent.Report().NotReady) == 0
	})
	n.allocate("pod", gpu, 1)
	if got := n.registrations(gpu); got != 2 {
		t.Errorf("the resource was registered %d times, want it once again", got)
	}
}

// The same with a plugin that advertises the same devices, as NVIDIA's does.
func TestVendorsPluginWithTheSameDevices(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, quickConflicts)
	stop := startVendorsPlugin(t, n, "example-gpu.sock", gpu, "mock-0", "mock-1", "mock-2", "mock-3")
	n.wantProblem(gpu, "another device plugin listens on", "example-gpu.sock", "Remove it")
	stop()
	n.wantCounts(gpu, 4, 4)
	n.eventually("the problem is over", func() bool { return len(n.agent.Report().Problems) == 0 && len(n.agent.Report().NotReady) == 0 })
	n.allocate("pod", gpu, 1)
}

func (n *node) registrations(resource string) int {
	for _, r := range n.agent.Report().Resources {
		if r.Name == resource {
			return r.Registrations
		}
	}
	return 0
}

// vendorsPlugin lists some devices, and no more.
type vendorsPlugin struct {
	pluginapi.UnimplementedDevicePluginServer
	ids []string
}

func (p *vendorsPlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *vendorsPlugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	list := &pluginapi.ListAndWatchResponse{}
	for _, id := range p.ids {
		list.Devices = append(list.Devices, &pluginapi.Device{ID: id, Health: pluginapi.Healthy})
	}
	err := stream.Send(list)
	<-stream.Context().Done()
	return err
}

// startVendorsPlugin registers it with kubelet.
func startVendorsPlugin(t *testing.T, n *node, name, resource string, ids ...string) (stop func()) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(n.kubelet.PluginDir(), name), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	server, done := grpc.NewServer(), make(chan struct{})
	pluginapi.RegisterDevicePluginServer(server, &vendorsPlugin{ids: ids})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	stop = func() {
		server.Stop()
		<-done
	}
	t.Cleanup(stop)
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.kubelet.PluginDir(), "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = pluginapi.NewRegistrationClient(conn).Register(n.soon(), &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: name, ResourceName: resource})
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	return stop
}
