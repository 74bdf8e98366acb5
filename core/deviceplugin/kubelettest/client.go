package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/validation"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// errAlreadyConnected is kubelet's refusal of a socket path that it knows.
var errAlreadyConnected = errors.New("device plugin already connected")

// client is one connection to a device plugin.
type client struct {
	resource string
	socket   string
	conn     *grpc.ClientConn
	api      pluginapi.DevicePluginClient
	options  *pluginapi.DevicePluginOptions
}

// registrationServer is kubelet's Registration service.
type registrationServer struct {
	pluginapi.UnimplementedRegistrationServer
	kubelet *Kubelet
	process *process
}

// Register validates the request and connects to the plugin before it answers.
// The options in the request are ignored, as kubelet ignores them.
func (s *registrationServer) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k := s.kubelet
	socket := filepath.Join(k.PluginDir(), r.GetEndpoint())
	err := validate(r.GetResourceName(), []string{r.GetVersion()})
	if err == nil {
		err = k.connect(ctx, s.process, r.GetResourceName(), socket)
	}
	if err != nil {
		k.refused(r.GetResourceName(), socket, err)
	}
	return &pluginapi.Empty{}, err
}

func (k *Kubelet) refused(resource, socket string, err error) {
	k.update(Event{Type: EventRefused, Resource: resource, Socket: socket, Err: err}, func() {
		k.counts.Refused++
		if errors.Is(err, errAlreadyConnected) {
			k.counts.Duplicates++
		}
	})
}

// validate checks what kubelet checks of a plugin before it connects.
func validate(resource string, versions []string) error {
	if !slices.Contains(versions, pluginapi.Version) {
		return fmt.Errorf("requested API version %q is not supported by kubelet; supported versions are %q",
			versions, pluginapi.SupportedVersions)
	}
	domain, _, qualified := strings.Cut(resource, "/")
	if !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") ||
		strings.HasPrefix(resource, "requests.") ||
		len(validation.IsQualifiedName("requests."+resource)) != 0 {
		return fmt.Errorf("the ResourceName %q is invalid", resource)
	}
	return nil
}

// connect is connectClient of kubelet's device plugin server. Its order of
// steps, and what it forgets on failure, is kubelet's.
func (k *Kubelet) connect(ctx context.Context, p *process, resource, socket string) error {
	conn, err := newConn(socket)
	if err != nil {
		return err
	}
	c := &client{resource: resource, socket: socket, conn: conn, api: pluginapi.NewDevicePluginClient(conn)}
	k.mu.Lock()
	k.manager.addClient(c, k.opts.Legacy)
	k.mu.Unlock()
	if err := k.open(ctx, c); err != nil {
		k.mu.Lock()
		k.manager.removeClient(resource, socket, k.opts.Legacy)
		delete(k.manager.all, c)
		k.mu.Unlock()
		// Kubelet leaves the connection to the garbage collector here.
		_ = conn.Close()
		return err
	}
	p.wg.Go(func() { k.follow(p, c) })
	return nil
}

// open dials, asks for the options and makes the connection known.
func (k *Kubelet) open(ctx context.Context, c *client) error {
	if err := dial(ctx, c.conn, k.timing.Dial); err != nil {
		return fmt.Errorf("failed to dial device plugin: %w", err)
	}
	options, err := c.api.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	if err != nil {
		return fmt.Errorf("failed to get device plugin options: %w", err)
	}
	c.options = options
	k.mu.Lock()
	err = k.manager.connected(c, k.opts.Legacy)
	k.mu.Unlock()
	if err != nil {
		return err
	}
	k.update(Event{Type: EventRegistered, Resource: c.resource, Socket: c.socket}, func() {
		k.counts.Registered++
		k.registered[c.resource] = struct{}{}
	})
	return nil
}

// follow is runClient: it receives lists until the stream ends.
func (k *Kubelet) follow(p *process, c *client) {
	err := k.receive(p, c)
	if p.ctx.Err() != nil {
		return // the stand-in stops: not the plugin's doing
	}
	k.update(Event{Type: EventBroken, Resource: c.resource, Socket: c.socket, Err: err}, func() {
		k.counts.Broken++
		if found := k.manager.client(c.resource, c.socket, k.opts.Legacy); found != nil {
			k.disconnect(found)
		}
		delete(k.manager.all, c)
	})
	_ = c.conn.Close()
}

func (k *Kubelet) receive(p *process, c *client) error {
	stream, err := c.api.ListAndWatch(p.ctx, &pluginapi.Empty{})
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		healthy := 0
		for _, d := range response.GetDevices() {
			if d.GetHealth() == pluginapi.Healthy {
				healthy++
			}
		}
		k.update(Event{
			Type: EventDevices, Resource: c.resource, Socket: c.socket,
			Listed: len(response.GetDevices()), Healthy: healthy,
		}, func() {
			k.counts.Updates++
			k.manager.received(c.resource, response.GetDevices())
			if k.opts.OnDevices != nil {
				k.opts.OnDevices(c.resource, response.GetDevices())
			}
		})
	}
}

// disconnect is disconnectClient: mu is held.
func (k *Kubelet) disconnect(c *client) {
	k.manager.removeClient(c.resource, c.socket, k.opts.Legacy)
	_ = c.conn.Close()
	k.manager.disconnected(c, k.opts.Legacy)
}

// newConn makes a connection to a unix socket without dialling it.
func newConn(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///plugin",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
	)
}

// dial blocks until the connection is ready, and tries again after failed attempts, as
// kubelet's dial with grpc.WithBlock does.
func dial(ctx context.Context, conn *grpc.ClientConn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.Idle {
			conn.Connect()
		}
		if state == connectivity.Shutdown {
			return errors.New("the connection was closed")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
	return nil
}

// Disconnect breaks every connection that serves a resource, as a fault between
// kubelet and a plugin would. Kubelet does not dial again on its own.
func (k *Kubelet) Disconnect(resource string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.manager.all {
		if c.resource == resource {
			_ = c.conn.Close()
		}
	}
}
