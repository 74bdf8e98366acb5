package deviceplugin

import (
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/wake"
)

// State is the state of a resource's registration.
type State string

// The states.
const (
	// StateEmpty: the resource never had a unit, and none was allocated, so it is not
	// registered.
	StateEmpty State = "empty"
	// StateWaiting: kubelet's socket does not accept connections, or there is a pause after a
	// failure.
	StateWaiting State = "waiting"
	// StateRegistering: Register was called and has not returned.
	StateRegistering State = "registering"
	// StateConnecting: the resource is registered, and kubelet has not called ListAndWatch.
	StateConnecting State = "connecting"
	// StateServing: kubelet has a stream with the list and its updates.
	StateServing State = "serving"
)

// Status is the status of one resource's registration and list.
type Status struct {
	Resource string
	State    State
	// Socket is the path of the newest registered socket; "" without one.
	Socket string
	// Since is when State began.
	Since time.Time
	// Healthy and Unhealthy count the units in the list.
	Healthy, Unhealthy int
	// Registrations counts the streams that kubelet opened.
	Registrations int
	// Error is the latest problem with the registration; "" once the resource is served.
	Error string
	// Unlisted reports that the resource left the table and stays registered without units.
	Unlisted bool
	// Notes are problems with the list, such as units that do not fit into it.
	Notes []string
}

// Advertised returns the newest list of each resource that kubelet accepts now: by resource
// and ID, whether the unit is healthy. Kubelet may have yet to receive it.
func (p *Plugin) Advertised() map[string]map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]map[string]bool{}
	for name, a := range p.adverts {
		a.mu.Lock()
		serving, devices := a.state == StateServing, a.now.list.GetDevices()
		a.mu.Unlock()
		if !serving {
			continue
		}
		all[name] = make(map[string]bool, len(devices))
		for _, d := range devices {
			all[name][d.GetID()] = d.GetHealth() == pluginapi.Healthy
		}
	}
	return all
}

// Renew registers a resource with kubelet again, by a new socket. The earlier socket serves
// until kubelet has connected to the new one. It does nothing for a resource that is not
// registered.
func (p *Plugin) Renew(resource string) {
	p.mu.Lock()
	a := p.adverts[resource]
	p.mu.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	a.renew = a.current != nil
	a.mu.Unlock()
	wake.Send(a.wake)
}
