package health

import (
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verdict is what the core makes of a device's health: what the backend says
// now, what it said before, and what its parent and its backend are.
type Verdict struct {
	Healthy bool
	// Faults are what is wrong, the gravest first; empty if healthy.
	Faults []Fault
}

// Same compares all of it.
func (v Verdict) Same(o Verdict) bool {
	return v.Healthy == o.Healthy && slices.Equal(v.Faults, o.Faults)
}

// Fault is one thing that is wrong with a device.
type Fault struct {
	Code     string             `json:"code"`
	Message  string             `json:"message"`
	Recovery inventory.Recovery `json:"recovery"`
	// Reach is whom it affects; "" counts as inventory.ReachDevice.
	Reach inventory.Reach `json:"reach,omitempty"`
	Since time.Time       `json:"since"`
	// From is the ID of the device whose fault this is, if it is another one
	// (the parent of a partition); "" for the device's own.
	From string `json:"from,omitempty"`
}
