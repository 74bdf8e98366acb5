package resource

import (
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// Table is every resource of the node at one moment. It never changes.
type Table struct {
	// Generation is the snapshot's that the table was made from.
	Generation uint64
	// Resources are in the order of the configuration.
	Resources []*Resource
	// Problems are what an operator must know: a selector that failed on a
	// device, an ID that two backends report under one resource.
	Problems []inventory.Problem
	// Unassigned are devices that no resource selects.
	Unassigned []inventory.Key
}

// Resource is one resource name and its units. It never changes.
type Resource struct {
	Name         string
	Injection    config.Injection
	Registration config.Registration
	// Replicas is how many units each device has; 1 means the device itself.
	Replicas int
	// MaxReplicasPerContainer is 0 for no limit; only of meaning if Replicas > 1.
	MaxReplicasPerContainer int
	Units                   []Unit
}

// Unit is what kubelet counts as one device: a device, or one replica of it.
type Unit struct {
	// ID is what kubelet sees: the device's ID, with ::N for a replica.
	ID      string
	Device  *inventory.Device
	Verdict health.Verdict
}
