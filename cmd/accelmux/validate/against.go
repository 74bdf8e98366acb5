package validate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/status/listing"
)

// Changes are what a configuration would change on a node, with its devices as they are now.
type Changes struct {
	Node string `json:"node"`
	// Profile is the one that was compared; InForce is that of the node now.
	Profile string `json:"profile"`
	InForce string `json:"inForce"`
	// Resources are those that differ, by name.
	Resources []ResourceChange `json:"resources"`
	// Devices are those that move to another resource or API.
	Devices []Move `json:"devices"`
	// Unknown are the backends of the profile that the node does not run now, so that their devices are not known.
	Unknown []string `json:"unknown"`
	// Problems are those of devices that status would report.
	Problems []inventory.Problem `json:"problems"`
}

// ResourceChange is a resource before and after; nil where there is none.
type ResourceChange struct {
	Name string `json:"name"`
	Now  *Count `json:"now,omitempty"`
	Then *Count `json:"then,omitempty"`
}

// Count is how much a resource has.
type Count struct {
	API string `json:"api"`
	// Units are devices, or the replicas of shared ones.
	Devices int `json:"devices"`
	Units   int `json:"units"`
}

// Move is a device that changes its resource, or the API that serves it.
type Move struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
	// Parent is the device of which this one is a partition.
	Parent string `json:"parent,omitempty"`
	// From and To are resources; "" for none.
	From    string `json:"from,omitempty"`
	FromAPI string `json:"fromAPI,omitempty"`
	To      string `json:"to,omitempty"`
	ToAPI   string `json:"toAPI,omitempty"`
	// Holders keep the device until they end: it moves then.
	Holders []listing.Holder `json:"holders,omitempty"`
}

// Compare returns what a valid configuration would change on a node. named is the profile; "" is the one that has the
// name of the profile in force, or the only one. The error is for the operator.
func Compare(c *config.NodeConfig, n Node, named string) (*Changes, error) {
	p, err := c.Profile(cmp.Or(named, n.Profile))
	if err != nil && named == "" && len(c.Profiles) == 1 {
		p, err = &c.Profiles[0], nil
	}
	if err != nil {
		return nil, fmt.Errorf("which profile node %s would have is not known: %w; name it with --profile", n.Name, err)
	}
	mapper, err := resource.Compile(p)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for _, d := range n.Devices {
		if d.Resource != "" && len(d.Holders) > 0 {
			held[d.Resource] = true
		}
	}
	table := mapper.Map(n.snapshot(func(name string) bool { return p.Backend(name) != nil }), held)
	changes := &Changes{Node: n.Name, Profile: p.Name, InForce: n.Profile, Unknown: []string{}, Devices: []Move{}, Problems: append([]inventory.Problem{}, table.Problems...)}
	for _, b := range p.Backends {
		if !slices.ContainsFunc(n.Backends, func(other Backend) bool { return other.Name == b.Name }) {
			changes.Unknown = append(changes.Unknown, b.Name)
		}
	}
	changes.compare(&n, table)
	return changes, nil
}

// compare fills the resources and devices.
func (c *Changes) compare(n *Node, table *resource.Table) {
	now, then := map[string]*Count{}, map[string]*Count{}
	for _, r := range n.Resources {
		now[r.Name] = &Count{API: r.API}
	}
	to := map[inventory.Key]*resource.Resource{}
	for _, r := range table.Resources {
		then[r.Name] = &Count{string(r.API), len(r.Devices), len(r.Devices) * r.Replicas}
		for _, d := range r.Devices {
			to[d.Key] = r
		}
	}
	for _, d := range n.Devices {
		if count := now[d.Resource]; count != nil {
			count.Devices++
			count.Units += max(d.Replicas, 1)
		}
		m := Move{Backend: d.Backend, ID: d.ID, Parent: d.Parent, From: d.Resource, FromAPI: n.api(d.Resource), Holders: d.Holders}
		if r := to[inventory.Key{Backend: d.Backend, ID: d.ID}]; r != nil {
			m.To, m.ToAPI = r.Name, string(r.API)
		}
		if m.From != m.To || m.FromAPI != m.ToAPI {
			c.Devices = append(c.Devices, m)
		}
	}
	names := map[string]bool{}
	for _, counts := range []map[string]*Count{now, then} {
		for name := range counts {
			names[name] = true
		}
	}
	c.Resources = []ResourceChange{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := now[name], then[name]; a == nil || b == nil || *a != *b {
			c.Resources = append(c.Resources, ResourceChange{name, a, b})
		}
	}
}
