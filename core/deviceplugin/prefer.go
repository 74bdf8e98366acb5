package deviceplugin

import (
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/topology"
)

// prepare sets the topology of the view's units. With the same allocation settings it is
// made from that of the view before, which saves the work if only health differs.
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

// choosing returns the allocation settings as package topology's options.
func choosing(a config.Allocation) topology.Options {
	return topology.Options{
		Policy:       topology.Policy(a.Policy),
		WeakestFirst: a.Links == config.LinksWeakest,
	}
}

// prefer returns the units that a container should get of those that kubelet offers. They
// include all that kubelet requires; the others are healthy and in the view. There are fewer
// than requested if too few are offered. The order of the IDs in the request does not matter.
func (a *advert) prefer(v *view, c *pluginapi.ContainerPreferredAllocationRequest) []string {
	began := time.Now()
	result := v.topology.Choose(topology.Request{
		Available: c.GetAvailableDeviceIDs(), Must: c.GetMustIncludeDeviceIDs(), Size: int(c.GetAllocationSize()),
	})
	if chosen := a.plugin.opts.Chosen; chosen != nil {
		chosen(a.name, result, time.Since(began))
	}
	if result.Missing > 0 {
		a.log.Warn("kubelet asks for more devices than are known and healthy among those that it offers; it adds others on its own",
			"wanted", c.GetAllocationSize(), "offered", len(c.GetAvailableDeviceIDs()), "missing", result.Missing)
	}
	return result.IDs
}

// Topology returns the current topology of a resource, or nil if there is no such resource.
// It may be called from any goroutine.
func (p *Plugin) Topology(resource string) *topology.Topology {
	p.mu.Lock()
	a := p.adverts[resource]
	p.mu.Unlock()
	if a == nil {
		return nil
	}
	return a.view().topology
}
