package status

import (
	"time"

	"github.com/accelmux/accelmux/core/telemetry"
)

// Telemetry is what the backends measure of the devices, for `accelmux top`.
type Telemetry struct {
	// Devices are the listed ones, and their parents that have values.
	Devices []Measured `json:"devices"`
	// Missing is why there are no values, by backend.
	Missing map[string]string `json:"missing,omitempty"`
}

// Measured is one device with its values.
type Measured struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
	// Class is "" for a device that is not listed itself.
	Class    string `json:"class,omitempty"`
	Resource string `json:"resource,omitempty"`
	Parent   string `json:"parent,omitempty"`
	// Memory is the device's capacity of that name, in bytes; 0 if it has none.
	Memory  int64    `json:"memory,omitempty"`
	Holders []Holder `json:"holders,omitempty"`
	// SampledAt is when the values were received; nil if there are none.
	SampledAt *time.Time        `json:"sampledAt,omitempty"`
	Values    []telemetry.Value `json:"values,omitempty"`
}
