package deviceplugin

import (
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/topology"
)

// prepare makes the topology of the view's units. That of the view before it is
// taken over with the health of now, as long as the devices and what they are
// chosen by are the same.
func (v *view) prepare(before *view) {
	units := make([]topology.Unit, 0, len(v.units))
	for _, u := range v.units {
		units = append(units, topology.Unit{ID: u.ID, Device: u.Device, Healthy: u.healthy})
	}
	if before != nil && before.allocation == v.allocation {
		v.topology = before.topology.Refresh(units)
		return
	}
	v.topology = topology.Prepare(units, choosing(v.allocation))
}

// choosing is what package topology calls an allocation.
func choosing(a config.Allocation) topology.Options {
	return topology.Options{
		Policy:       topology.Policy(a.Policy),
		WeakestFirst: a.Links == config.LinksWeakest,
	}
}

// prefer is what a container should get of what kubelet may give it: a choice with
// all that must be included, of units that are healthy and known besides, and
// shorter than asked for if there are too few. It depends on no order.
func (a *advert) prefer(v *view, c *pluginapi.ContainerPreferredAllocationRequest) []string {
	began := time.Now()
	result := v.topology.Choose(topology.Request{
		Available: c.GetAvailableDeviceIDs(), Must: c.GetMustIncludeDeviceIDs(), Size: int(c.GetAllocationSize()),
	})
	if chosen := a.plugin.opts.Chosen; chosen != nil {
		chosen(a.name, result, time.Since(began))
	}
	if result.Missing > 0 {
		a.log.Warn("kubelet asks for more devices than are known and healthy among those that it offers; it adds others by itself",
			"wanted", c.GetAllocationSize(), "offered", len(c.GetAvailableDeviceIDs()), "missing", result.Missing)
	}
	return result.IDs
}

// Topology is what chooses the units of a resource now; nil if there is no such
// resource. It may be asked from any goroutine.
func (p *Plugin) Topology(resource string) *topology.Topology {
	p.mu.Lock()
	a := p.adverts[resource]
	p.mu.Unlock()
	if a == nil {
		return nil
	}
	return a.view().topology
}
