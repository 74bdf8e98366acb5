package engine

import (
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

// Vendor decides what is a fault and what a container gets. A value belongs to one
// [Settings]. Its methods run in the loop and must not block.
type Vendor interface {
	// Faults returns the gravest fault of the device itself and the gravest of what it
	// shares with other devices; nil if there is none. Either may be [sdk.Unknown]. Own may
	// also be a health without a fault that has evidence: [sdk.Recovered] or [sdk.Cleared].
	Faults(d *KnownDevice) (own, shared *sdk.Health)
	// List returns the device for the core: class, attributes, parent, hooks and so on. The
	// engine sets ID, health, edits, reset group, PCI address and NUMA node. Problems are
	// for users.
	List(d *KnownDevice) (device *sdk.Device, problems []string)
}

// Rememberer is a [Vendor] that remembers something about a device; see
// [KnownDevice.Memory].
type Rememberer interface {
	// Found is called before a reading that is not busy becomes d.Stable. At the first
	// reading both are the same.
	Found(d *KnownDevice, read Device)
	// Forget is called after each scan in which the device is absent or missing, and when its
	// driver has set it up again. Another process may have changed it unnoticed.
	Forget(d *KnownDevice)
}

// Counter is a [Vendor] that reports about units.
type Counter interface {
	// Count returns metrics that the last scan found, without reading hardware. Device is
	// the ID that metrics of the unit have.
	Count(u *KnownUnit, device string) []*sdk.Metric
	// Sensed is called with new readings of sensors, before they become u.Senses. It
	// reports whether the inventory may change.
	Sensed(u *KnownUnit, senses any) (changed bool)
	// Problems are those of a unit, for users.
	Problems(u *KnownUnit) []string
}

// EventReader is a [Vendor] to which uevents report more than that something changed.
type EventReader interface {
	// Uevent is called with each event that Options.Concerns keeps.
	Uevent(e uevent.Event, known Known)
}

// Labeler is a [Vendor] whose own tools label nodes.
type Labeler interface {
	// NodeLabels returns the labels of the node by the names and values of the vendor's own
	// tools. Units are in the order of the inventory.
	NodeLabels(units []*KnownUnit) []*sdk.NodeLabel
}

// Divider is a [Vendor] whose devices consume of counter sets.
type Divider interface {
	// CounterSets returns the sets of which listed devices consume.
	CounterSets(units []*KnownUnit) []*sdk.CounterSet
}

// Expander is a [Vendor] of whose devices each may be listed as several for the core.
type Expander interface {
	// Expand returns what is listed in place of a device, and problems, for users. Reset, Prepare and so on
	// have the IDs of these.
	Expand(d *KnownDevice, listed *sdk.Device) (devices []*sdk.Device, problems []string)
}

// Known is the loop's state. It may be used only in the function that got it.
type Known struct{ loop *loop }
