package resource

import (
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// Table is every resource of the node at one moment. It never changes.
type Table struct {
	// Generation is the snapshot's that the table was made from.
	Generation uint64
	// Resources are in the order of the configuration, and those that a name with
	// placeholders makes in the order of their names.
	Resources []*Resource
	// Problems are what an operator must know, in the order of the snapshot's
	// devices: a selector that failed on a device, an ID that two backends report
	// under one resource (the first backend by name has it, the other's device is
	// left out), a unit ID that became too long, a name that a device cannot make, or
	// that others have.
	Problems []inventory.Problem
	// Unassigned are devices that no resource selects, in the snapshot's order.
	Unassigned []inventory.Key
	// RetryAt is when to map again although nothing changed, because a device waits for a
	// name; zero if none waits.
	RetryAt time.Time
}

// Resource is one resource name and its units. It never changes.
type Resource struct {
	// Name is domain/name, unique in the table.
	Name string
	// Injection is how a container gets the devices.
	Injection config.Injection
	// Registration is how kubelet learns of the resource.
	Registration config.Registration
	// Allocation says which of the free units a container gets.
	Allocation config.Allocation
	// Parameters are what containers ask of Prepare. Nobody changes them.
	Parameters map[string]config.Parameter
	// Replicas is how many units each device has; 1 means the device itself.
	Replicas int
	// MaxReplicasPerContainer is 0 for no limit; only of meaning if Replicas > 1.
	MaxReplicasPerContainer int
	// Held says that containers hold units of it, which may be gone.
	Held bool
	// Units are in the order of the snapshot: by backend's name, then as the
	// backend lists its devices, then by replica. IDs are unique.
	Units []Unit
}

// Unit is what kubelet counts as one device: a device, or one replica of it.
type Unit struct {
	// ID is what kubelet sees: the device's ID, with ::N for a replica, N from 0.
	// SplitUnitID takes it apart.
	ID     string
	Device *inventory.Device
	// Verdict is the device's; all its replicas have the same.
	Verdict health.Verdict
}
