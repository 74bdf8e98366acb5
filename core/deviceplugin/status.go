package deviceplugin

import (
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// State is how far a resource's registration is.
type State string

// The states.
const (
	// StateEmpty: the resource never had a unit, or was held, so kubelet has not
	// heard of it.
	StateEmpty State = "empty"
	// StateWaiting: kubelet is not there, or a pause after a failure.
	StateWaiting State = "waiting"
	// StateRegistering: Register was called and has not answered.
	StateRegistering State = "registering"
	// StateConnecting: kubelet knows, and has yet to ask for the list.
	StateConnecting State = "connecting"
	// StateServing: kubelet has the list and takes updates.
	StateServing State = "serving"
)

// Status is how one resource stands with kubelet.
type Status struct {
	Resource string
	State    State
	// Socket is the path that kubelet is told of; "" without one.
	Socket string
	// Since is when State began.
	Since time.Time
	// Healthy and Unhealthy count units as kubelet sees them.
	Healthy, Unhealthy int
	// Registrations counts the streams that kubelet opened on a new socket, or
	// again after a restart.
	Registrations int
	// Error is the last thing that went wrong with the registration, as a
	// sentence; "" once the resource is served.
	Error string
	// Unlisted: the resource left the table, and stays registered without units.
	Unlisted bool
	// Notes are problems of what is advertised, such as units that do not fit.
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

// Renew registers a resource with kubelet again, by a new socket. The socket before serves
// until kubelet has connected. A resource that is not registered is left alone.
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
	poke(a.wake)
}
