package resource

import (
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// Table is every resource of the node at one moment. It never changes.
type Table struct {
	// Generation is that of the snapshot that the table was made from.
	Generation uint64
	// Resources are in the order of the configuration, and those of one template in the
	// order of their names.
	Resources []*Resource
	// Problems are for the operator, in the order of the snapshot's devices: a selector that
	// failed on a device, an ID that two backends report in one resource (one of the devices
	// is left out), a name that a device cannot make, or that belongs to other devices.
	Problems []inventory.Problem
	// Unassigned has the devices that no resource selects, in the snapshot's order.
	Unassigned []inventory.Key
	// RetryAt is when to map again although nothing changed, because a device waits for a
	// name; zero if none waits.
	RetryAt time.Time
}

// Resource is one resource name and its devices. It never changes.
type Resource struct {
	// Resource is the profile's entry with the name that it made: domain/name, unique in
	// the table. Its other fields are settings of the API that serves the resource.
	config.Resource
	// Held reports that devices of the resource are allocated; they may be removed ones.
	Held bool
	// Withheld: the device plugin API advertises none of the devices; those that are here are
	// allocated by it.
	Withheld bool
	// Devices are in the order of the snapshot: by backend's name, then as the backend
	// lists its devices. Their IDs are unique.
	Devices []Device
}

// Device is a device as the node serves it.
type Device struct {
	*inventory.Device
	// Resource is the name of the resource that selects it; "" for none.
	Resource string
	// Removed: it is allocated, and its backend no longer lists it. It is as it was listed last.
	Removed bool
	// Verdict is on its health. Mapping does not depend on it: package round composes it for the devices of a table.
	Verdict health.Verdict
}
