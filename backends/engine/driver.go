package engine

import (
	"context"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Driver gives access to the devices of one kernel driver or library. All methods may be
// called concurrently, but at most one scan runs at a time, and at most one reset of a
// unit. They may take as long as the hardware does.
type Driver interface {
	// Name identifies the driver, such as "dfl". It stays the same over changes of settings.
	Name() string
	// Scan reads what can be read often, such as sysfs. Known are the units of earlier
	// scans, also those of other drivers.
	Scan(known []Unit) Scan
	// Reset resets devices of one reset group, and clears the errors that they keep until
	// then. It returns what was done, for users.
	Reset(ctx context.Context, targets []Target) (done string, err error)
}

// Poller is a [Driver] whose health is cheap to read without the rest of a scan.
type Poller interface {
	// Poll returns the last scan with the health of its devices read again; see the package
	// comment. Without ok the driver is scanned at once, as something else may have changed.
	Poll(last Scan) (now Scan, ok bool)
}

// Senser is a [Driver] whose units have sensors or error counters, which may be slow to
// read.
type Senser interface {
	// Sense reads the sensors of a unit. Device is the ID that metrics of the unit have.
	Sense(u Unit, device string) Senses
}

// Measurer is a [Driver] that reads telemetry apart from what Sense reads.
type Measurer interface {
	// Measure returns telemetry of a unit and its devices. Device is the ID that metrics of
	// the unit have.
	Measure(u Unit, device string) []*sdk.Metric
}

// Senses are the readings of a unit's sensors.
type Senses struct {
	// Metrics are for telemetry, unless the driver is a [Measurer].
	Metrics []*sdk.Metric
	// Vendor is the vendor's own, for [KnownUnit.Senses].
	Vendor any
	// Unavailable: the unit does not report them now, as while it is in reset. They are no
	// evidence of anything, and are read again after 1 s.
	Unavailable bool
}

// Scan is what a driver found.
type Scan struct {
	// Units and Problems have the same order in each scan that sees the same machine: otherwise a
	// scan that has to be confirmed never is.
	Units    []Unit
	Problems []Problem
	// Unstable: the machine changed during each attempt to read it.
	Unstable bool
	// Unloaded: the kernel driver is not loaded, so it sets up again what was not found when that comes back.
	Unloaded bool
	// Absent is why known units were not found though their hardware is there, by ID, if the driver knows it. They are
	// kept also where sysfs has nothing in their place, as on machines that list devices which it never had.
	Absent map[string]*sdk.Health
	// Away are the PCI functions whose devices were not looked at, as the driver has not got them, though the hardware is
	// there, and why.
	Away map[pci.Address]string
	// Err is why nothing could be read, for users: no device was looked at.
	Err error
	// Next, unless 0, is the time until the next scan if it would be later.
	Next time.Duration
	// Unpolled: a [Poller] would find nothing before the next scan, as no health is read in files.
	Unpolled bool
}

// Problem is something wrong that the scan found.
type Problem struct {
	// Device begins with a PCI address or a name in sysfs, such as "region3". It is empty
	// for a problem that is not one device's.
	Device string
	// Lost: this problem makes the scan leave the device out; without Device, some that are not known.
	Lost bool
	// Err names the file, if there is one, and what is wrong.
	Err error
}

// Unit is a physical device, such as a card.
type Unit struct {
	// ID stays the same over restarts, reboots, reloads of the driver and another order of
	// discovery.
	ID string
	// Board is the same for units that one reset reaches together; the ID of a single unit.
	Board string
	// PCI is nil for a unit that is not on PCI.
	PCI *pci.Device
	// Dir is where the driver finds the unit, below the root of sysfs.
	Dir string
	// Hardware, if not empty, is the directory of what the unit is on, which stays while Dir is elsewhere, as when an
	// interface is in a container.
	Hardware string
	// Objects are directories that no unit of another driver may have, for drivers that could list the same by
	// other IDs; mostly none.
	Objects []string
	// Err is why the driver could not read the unit, which is what it was before. That is no evidence of recovery; after
	// a reset the unit is awaited.
	Err error
	// Devices may be none, as of a function that only manages others.
	Devices []Device
	// Vendor is the vendor's own.
	Vendor any
}

// Device is a part of a unit that a container can be given.
type Device struct {
	// ID stays the same as that of a unit does; at most 63 bytes.
	ID string
	// Number orders the devices of a unit.
	Number int
	// Name is for messages: "region 0 of the card x".
	Name string
	// Busy: it is in reset or being programmed, and comes back on its own.
	Busy bool
	// Content identifies what is loaded; empty if nothing is. A scan in which it became
	// empty has to be confirmed.
	Content string
	// ResetGroup is the same for devices that are only reset together; empty if the device
	// is reset alone.
	ResetGroup string
	// Functions are the PCI functions that it is on, for devices that may have several. Devices with one
	// of them in common are only reset together, too.
	Functions []pci.Address
	// Edits are what a container gets; nil with EditsErr, for the operator, while
	// something that it needs is missing.
	Edits    *sdk.Edits
	EditsErr error
	// Vendor is the vendor's own.
	Vendor any
}

// Target is a device to operate on, as it was read last.
type Target struct {
	Driver Driver
	Unit   Unit
	Device Device
	// Board has the IDs of the units of its board, for [Engine.Enter].
	Board []string
	// Group has the IDs of the other devices of its reset group.
	Group []string
	// Memory is [KnownDevice.Memory] at that time.
	Memory any
	// Shared is that of [sdk.HeldDevice], for [Engine.Held].
	Shared bool
}
