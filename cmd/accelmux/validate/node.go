package validate

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Node is what an agent has of its node, as `accelmux topology -o inventory` saves it.
type Node struct {
	Name string `json:"name"`
	// Profile is the one in force.
	Profile   string           `json:"profile"`
	Backends  []Backend        `json:"backends"`
	Resources []Resource       `json:"resources"`
	Devices   []listing.Device `json:"devices"`
}

// Backend is a backend of a node.
type Backend struct {
	Name    string `json:"name"`
	Vendor  string `json:"vendor,omitempty"`
	Version string `json:"version,omitempty"`
}

// Resource is a resource of a node.
type Resource struct {
	Name string `json:"name"`
	API  string `json:"api"`
}

// NodeOf returns the node of an agent's answers.
func NodeOf(r status.Report, devices []listing.Device) Node {
	n := Node{Name: r.Node, Profile: r.Config.Profile, Backends: []Backend{}, Resources: []Resource{}, Devices: devices}
	for _, b := range r.Backends {
		n.Backends = append(n.Backends, Backend{b.Name, b.Vendor, b.Version})
	}
	for _, r := range r.Resources {
		n.Resources = append(n.Resources, Resource{r.Name, r.API})
	}
	return n
}

// api returns the API that serves a resource.
func (n *Node) api(resource string) string {
	for _, r := range n.Resources {
		if r.Name == resource {
			return r.API
		}
	}
	return ""
}

// snapshot returns the devices of the node that backends of a profile list, which has decides.
func (n *Node) snapshot(has func(backend string) bool) *inventory.Snapshot {
	snapshot := &inventory.Snapshot{Generation: 1}
	for _, b := range n.Backends {
		if !has(b.Name) {
			continue
		}
		backend := &inventory.Backend{Name: b.Name, Description: inventory.Description{Vendor: b.Vendor, Version: b.Version}}
		for i := range n.Devices {
			if d := &n.Devices[i]; d.Backend == b.Name {
				backend.Devices = append(backend.Devices, deviceOf(d))
			}
		}
		snapshot.Backends = append(snapshot.Backends, backend)
	}
	return snapshot
}

func deviceOf(d *listing.Device) *inventory.Device {
	attributes := map[string]inventory.Attribute{}
	for name, value := range d.Attributes {
		attributes[name] = inventory.Attribute{Value: typed(value, slices.Contains(d.Versions, name))}
	}
	return &inventory.Device{
		Key: inventory.Key{Backend: d.Backend, ID: d.ID}, Class: d.Class, NUMANodes: d.NUMANodes, PCIBusID: d.PCIBusID, PCIeRoot: d.PCIeRoot, Parent: d.Parent,
		Attributes: inventory.Named(attributes), Capacities: inventory.Named(d.Capacities), Potential: d.Potential, MadeFor: d.MadeFor,
	}
}

// typed returns a value that was JSON as an attribute has it.
func typed(value any, isVersion bool) any {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case string:
		if isVersion {
			return inventory.Version(v)
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
		switch typed(v[0], isVersion).(type) {
		case int64:
			return list[int64](v, isVersion)
		case bool:
			return list[bool](v, isVersion)
		case inventory.Version:
			return list[inventory.Version](v, isVersion)
		}
		return list[string](v, isVersion)
	}
	return value
}

func list[T any](values []any, isVersion bool) (all []T) {
	for _, value := range values {
		if v, ok := typed(value, isVersion).(T); ok {
			all = append(all, v)
		}
	}
	return all
}
