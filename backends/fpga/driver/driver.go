package driver

import (
	"context"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Driver gives access to the FPGAs of one kernel driver. All methods may be called
// concurrently, except Program and Reset for one board. Errors are for the operator and name
// the card and, if there is one, the file.
type Driver interface {
	// Name is the driver's name, such as "dfl", an attribute of its devices.
	Name() string
	// Read lists the cards and their state. It does not read sensors, which may be behind a slow
	// controller.
	Read() Reading
	// Sense reads the sensors of a card.
	Sense(Card) Senses
	// Fits returns an error if a file is not for a region: it is for another card, too large, or
	// of a kind that the driver does not program. It changes nothing.
	Fits(Card, Region, *bitstream.File) error
	// Holds reports whether the region, as it was read, has the content of the file, by
	// their IDs. It is false for files without IDs, such as raw ones.
	Holds(Region, *bitstream.File) bool
	// Program puts a file that fits into a region, and returns when the card reports it.
	// When ctx ends it returns at once if the kernel can be interrupted, otherwise when the
	// kernel is done. The error names the state of the region; it is [UntouchedError] if the
	// region certainly was not changed.
	Program(context.Context, Card, Region, *bitstream.File) error
	// Reset resets a region, and clears the errors that the card latches. It returns what
	// was done, for users.
	Reset(context.Context, Card, Region) (done string, err error)
}

// UntouchedError is an error of Program after which the region is unchanged. After other
// errors its content is not known, whatever ID it shows.
type UntouchedError struct{ Err error }

func (u UntouchedError) Error() string { return u.Err.Error() }

// Unwrap returns the error.
func (u UntouchedError) Unwrap() error { return u.Err }

// Reading is what a driver found.
type Reading struct {
	// Cards are by ID.
	Cards []Card
	// Problems are what is left out or uncertain.
	Problems []Problem
	// Unstable: the machine changed during each attempt to read it.
	Unstable bool
	// Unloaded: the kernel driver is not loaded, and the other fields are empty.
	Unloaded bool
}

// Problem is something wrong with a device: a PCI address, or a name in a class such as
// "region3".
type Problem = engine.Problem

// Card is programmed through one management function.
type Card struct {
	// ID stays the same over restarts, reboots, reloads of the driver and another order
	// of discovery; at most 48 bytes of [A-Za-z0-9_.-].
	ID string
	// Board is the same for cards that fail and are reset together; the ID of a single card.
	Board string
	// OnBoard is the number of cards on the board if the driver reports several;
	// else 0.
	OnBoard int
	// Parts are the cards that are listed as this one; none if it is one itself.
	Parts []Card
	// PCI is nil for a card that is not on PCI.
	PCI *pci.Device
	// Model is for people and selectors: "Intel PAC D5005".
	Model string
	// Serial is empty if the card does not report one.
	Serial string
	// Virtual: it is a virtual function, managed by another one.
	Virtual bool
	// Management are the nodes of the function that manages the card, as containers see
	// them: with them all of the card can be programmed. A virtual function has those of
	// its physical one.
	Management []string
	// Attributes are further attributes of all regions of the card.
	Attributes map[string]*sdk.Attribute
	// Faults are those of the whole card.
	Faults []Fault
	// Counts are counters and latched errors of the card, for telemetry.
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
	// Interface is the ID that bitstreams must fit, in lower case; empty if the driver does not
	// report it.
	Interface string
	// Function is the ID of the loaded function; empty except in the state Loaded.
	Function string
	State    State
	// Kind is what containers know the region as.
	Kind Kind
	// Name and Loaded are the names that users know for such a region and for its content:
	// names of resources without the domain, such as "region-d8424dc4a4a3c4…" and
	// "af-d84.244.…". Loaded is empty if nothing is loaded, or that is not known.
	Name, Loaded string
	// Nodes are the device nodes that a container is given, as containers see them.
	Nodes []string
	// Env are variables that a container is given; those of several regions are joined
	// by commas. A region without nodes must have some.
	Env map[string]string
	// Attributes are further attributes of this region alone.
	Attributes map[string]*sdk.Attribute
	Faults     []Fault
	Counts     []Count
	// Programmable: it can be programmed from here.
	Programmable bool
	// Fitting are the functions that bitstreams on the node have for its interface. Drivers leave it empty.
	Fitting []bitstream.Function
	// Dir is where the driver finds the region, below the root of sysfs.
	Dir string
}

// Kind is the kind of a region for containers.
type Kind string

const (
	// Port is a region of Intel's, with an accelerator function behind a port.
	Port Kind = "port"
	// Platform is a whole card with a shell, as AMD's Alveo cards are.
	Platform Kind = "platform"
	// Plain is a region of Linux's FPGA subsystem, of any vendor.
	Plain Kind = "plain"
)

// State is the state of a region's content.
type State string

const (
	// Loaded means that a function is loaded, and its ID is known.
	Loaded State = "loaded"
	// Unloaded means that nothing is loaded.
	Unloaded State = "unloaded"
	// Unreported means that the region does not report its content.
	Unreported State = "unreported"
	// Busy means that it is in reset or being programmed, and comes back on its own.
	Busy State = "busy"
)
