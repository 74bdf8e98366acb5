package health

import (
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// Verdict is the core's decision on a device's health. It follows from what the backend
// reports now and reported before, from its parent's faults, and from whether the backend
// runs.
type Verdict struct {
	Healthy bool
	// Faults has the gravest first; empty if healthy.
	Faults []Fault
}

// Same reports whether both verdicts are equal.
func (v Verdict) Same(o Verdict) bool {
	return v.Healthy == o.Healthy && slices.Equal(v.Faults, o.Faults)
}

// Fault is one fault of a device.
type Fault struct {
	Code     string             `json:"code"`
	Message  string             `json:"message"`
	Recovery inventory.Recovery `json:"recovery"`
	// Reach is who is affected; "" counts as inventory.ReachDevice.
	Reach inventory.Reach `json:"reach,omitempty"`
	Since time.Time       `json:"since"`
	// ReachSince is since when the device has had, without a pause, a fault of this reach or a graver one; zero: Since.
	ReachSince time.Time `json:"reachSince,omitzero"`
	// From is the ID of the parent whose fault this is; "" for the device's own.
	From string `json:"from,omitempty"`
}
