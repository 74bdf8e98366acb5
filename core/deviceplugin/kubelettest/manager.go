package kubelettest

import (
	"fmt"
	"sync"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// manager is the part of kubelet's device manager that knows plugins: the
// connections by resource, and their lists. Guarded by Kubelet.mu.
type manager struct {
	// clients are the connections that the registration server can still find,
	// by resource. A duplicate registration makes it lose the first one, which
	// lives on in resources.
	clients   map[string][]*client
	resources map[string]*resourceState
	// all are the connections to close at the end, lost ones included.
	all map[*client]struct{}
}

// resourceState is what the manager knows of one resource.
type resourceState struct {
	// endpoints are the live connections by socket path.
	endpoints map[string]*client
	// primary answers calls; it may be stopped. Nil after a restart.
	primary   *client
	stoppedAt time.Time // zero while primary lives
	devices   map[string]*pluginapi.Device
	healthy   map[string]struct{}
	unhealthy map[string]struct{}
	updates   int
}

func newManager() manager {
	return manager{
		clients:   map[string][]*client{},
		resources: map[string]*resourceState{},
		all:       map[*client]struct{}{},
	}
}

func newResourceState() *resourceState {
	return &resourceState{
		endpoints: map[string]*client{}, devices: map[string]*pluginapi.Device{},
		healthy: map[string]struct{}{}, unhealthy: map[string]struct{}{},
	}
}

// restore brings back a resource from the checkpoint: known, with nothing in it
// until its plugin registers again.
func (m *manager) restore(resource string) {
	r := newResourceState()
	r.stoppedAt = time.Now()
	m.resources[resource] = r
}

// expire forgets resources whose plugin has been gone for longer than grace.
func (m *manager) expire(grace time.Duration) {
	for name, r := range m.resources {
		if !r.stoppedAt.IsZero() && time.Since(r.stoppedAt) > grace {
			delete(m.resources, name)
		}
	}
}

func (r *resourceState) counts() (capacity, allocatable int) {
	return len(r.healthy) + len(r.unhealthy), len(r.healthy)
}

// connected is PluginConnected of kubelet's manager.
func (m *manager) connected(c *client, legacy bool) error {
	r, ok := m.resources[c.resource]
	if !ok {
		r = newResourceState()
		// Without a list yet the resource is not counted: kubelet creates its
		// sets with the first one.
		m.resources[c.resource] = r
	}
	if _, exists := r.endpoints[c.socket]; exists && !legacy {
		return fmt.Errorf("%w: %s", errAlreadyConnected, c.socket)
	}
	r.endpoints[c.socket] = c
	r.primary, r.stoppedAt = c, time.Time{}
	return nil
}

// disconnected is PluginDisconnected of kubelet's manager: of 1.37, or with
// legacy that of earlier releases, which knows only the newest connection.
func (m *manager) disconnected(c *client, legacy bool) {
	r, ok := m.resources[c.resource]
	if !ok {
		return
	}
	if _, exists := r.endpoints[c.socket]; !exists && !legacy {
		return
	}
	delete(r.endpoints, c.socket)
	if legacy || len(r.endpoints) == 0 {
		r.stoppedAt = time.Now()
		for id := range r.healthy {
			r.unhealthy[id] = struct{}{}
		}
		r.healthy = map[string]struct{}{}
		return
	}
	for _, left := range r.endpoints {
		r.primary, r.stoppedAt = left, time.Time{}
		break
	}
}

// received replaces what is known of a resource with a list.
func (m *manager) received(resource string, devices []*pluginapi.Device) {
	r, ok := m.resources[resource]
	if !ok {
		// Gone for longer than the grace: a late list has nowhere to go.
		return
	}
	r.updates++
	r.devices = make(map[string]*pluginapi.Device, len(devices))
	r.healthy, r.unhealthy = map[string]struct{}{}, map[string]struct{}{}
	for _, d := range devices {
		r.devices[d.GetID()] = d
		if d.GetHealth() == pluginapi.Healthy {
			r.healthy[d.GetID()] = struct{}{}
		} else {
			r.unhealthy[d.GetID()] = struct{}{}
		}
	}
}

func (m *manager) addClient(c *client, legacy bool) {
	m.all[c] = struct{}{}
	if legacy {
		m.clients[c.resource] = []*client{c}
		return
	}
	m.clients[c.resource] = append(m.clients[c.resource], c)
}

// removeClient forgets every connection of the resource on this socket, which
// after a duplicate registration is both. Legacy forgets whatever there is.
func (m *manager) removeClient(resource, socket string, legacy bool) {
	var left []*client
	for _, c := range m.clients[resource] {
		if !legacy && c.socket != socket {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		delete(m.clients, resource)
		return
	}
	m.clients[resource] = left
}

// client finds the connection that kubelet would take for this one: with legacy
// the newest of the resource, whichever it is.
func (m *manager) client(resource, socket string, legacy bool) *client {
	for _, c := range m.clients[resource] {
		if legacy || c.socket == socket {
			return c
		}
	}
	return nil
}

// closeAll closes every connection; mu guards m.
func (m *manager) closeAll(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	for c := range m.all {
		// Close of a connection has no error that matters here.
		_ = c.conn.Close()
	}
}
