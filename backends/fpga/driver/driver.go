package driver

import (
	"context"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Driver is one way to FPGAs. All methods may be called concurrently, but Program and
// Reset never for one region at a time. Errors are sentences for the operator that name
// the card and, where there is one, the file.
type Driver interface {
	// Name is that of the driver, such as "dfl": an attribute of its devices.
	Name() string
	// Read says what there is and how it is. It reads what can be read often: no
	// sensors, which may be behind a slow controller.
	Read() Reading
	// Sense reads the sensors of a card.
	Sense(Card) Senses
	// Fits says whether a file is for a region: an error if it is for another card, or
	// too large, or of a kind that the driver does not program. It touches nothing.
	Fits(Card, Region, *bitstream.File) error
	// Holds reports whether the region has what the file has, by their IDs, as the
	// region was read. It is false where IDs say nothing, as of raw files.
	Holds(Region, *bitstream.File) bool
	// Program puts a file that fits into a region, and returns when the card has it and
	// says so. When ctx ends it returns at once if the kernel can be left, and else when
	// the kernel is done. The error says what became of the region, and is [UntouchedError]
	// if that is for sure nothing.
	Program(context.Context, Card, Region, *bitstream.File) error
	// Reset resets a region, and clears errors that the card keeps until told
	// otherwise. In words it says what was done.
	Reset(context.Context, Card, Region) (done string, err error)
}

// UntouchedError is an error of Program after which the region has what it had. After others
// nobody knows, whatever ID it shows.
type UntouchedError struct{ Err error }

func (u UntouchedError) Error() string { return u.Err.Error() }

// Unwrap is the error.
func (u UntouchedError) Unwrap() error { return u.Err }

// Reading is what a driver found.
type Reading struct {
	// Cards are by ID.
	Cards []Card
	// Problems are what is left out or doubtful.
	Problems []Problem
	// Unsettled says that the machine changed each time while it was read.
	Unsettled bool
	// Absent says that the kernel's driver is not loaded; then there is nothing else.
	Absent bool
}

// Problem is something wrong with a device: a PCI address, or a name in a class such as
// "region3".
type Problem = engine.Problem

// Card is what is programmed through one management function.
type Card struct {
	// ID stays the same over restarts, reboots, reloads of the driver and another order
	// of discovery; at most 48 bytes of [A-Za-z0-9_.-].
	ID string
	// Board is what cards that share fate have in common; the card's ID if it is alone.
	Board string
	// PCI is nil for a card that is not on PCI.
	PCI *pci.Device
	// Model is for people, and for selectors: "Intel PAC D5005".
	Model string
	// Serial is empty if the card does not say one.
	Serial string
	// Virtual says that it is a virtual function, managed by another one.
	Virtual bool
	// Management are the nodes of the function that manages the card, as containers
	// see them: who has them can program all of it. A virtual function has those of its
	// physical one.
	Management []string
	// Attributes are what else is known of all regions of the card.
	Attributes map[string]*sdk.Attribute
	// Faults are those of the whole card.
	Faults []Fault
	// Counts are what the card counts or latches, for telemetry.
	Counts []Count
	// Regions are by number; there may be none, as on a function that only manages.
	Regions []Region
	// Dir is where the driver finds the card, below the root of sysfs.
	Dir string
}

// Region is a part of a card that is programmed and reset alone.
type Region struct {
	// ID stays the same as a card's does; at most 63 bytes.
	ID string
	// Number is the card's own.
	Number int
	// Interface is the ID of what bitstreams must fit, as the driver writes IDs in
	// lower case; empty if it does not say.
	Interface string
	// Function is the ID of what is loaded; empty but in the state Loaded.
	Function string
	State    State
	// Kind is what the region is for those who ask for it.
	Kind Kind
	// Name is what users know such a region by, and Loaded what they know what is
	// loaded by: names of resources without the domain, such as "region-d8424dc4a4a3c4…"
	// and "af-d84.244.…". Loaded is empty if nothing is, or nobody can tell.
	Name, Loaded string
	// Nodes are the device nodes that a container is given, as containers see them.
	Nodes []string
	// Env are variables that a container is given; those of several regions are joined
	// by commas. A region without nodes must have some.
	Env map[string]string
	// Attributes are what is known of this region alone.
	Attributes map[string]*sdk.Attribute
	Faults     []Fault
	Counts     []Count
	// Programmable says that a bitstream can be put into it from here.
	Programmable bool
	// Dir is where the driver finds the region, below the root of sysfs.
	Dir string
}

// Kind is what a region is for those who ask for it.
type Kind string

const (
	// Port is a region of Intel's, with an accelerator function behind a port.
	Port Kind = "port"
	// Platform is a whole card with a shell, as AMD's Alveo cards are.
	Platform Kind = "platform"
	// Plain is a region of Linux's FPGA subsystem, of any vendor.
	Plain Kind = "plain"
)

// State is what is known of what is loaded in a region.
type State string

const (
	// Loaded has an ID.
	Loaded State = "loaded"
	// Unloaded has nothing loaded.
	Unloaded State = "unloaded"
	// Untold does not say.
	Untold State = "untold"
	// Busy is in reset or being programmed: it is there, and comes back by itself.
	Busy State = "busy"
)

// Fault is something wrong.
type Fault struct {
	// Code is short and machine-readable, such as "port-errors".
	Code     string
	Recovery sdk.Recovery
	// Text says what happened and what to do, in a sentence that names the file or the
	// register.
	Text string
	// Cause is what settings can ignore it by: the name of the register or the alarm,
	// such as "pcie0_errors".
	Cause string
}

// Count is a number that the card keeps. Its name is that of a metric.
type Count struct {
	Name string
	// Label tells those of one name apart, such as the register.
	Label string
	// Grows says that it only grows, until a reset; then, and only then, its name ends in
	// _total.
	Grows bool
	Value float64
}
