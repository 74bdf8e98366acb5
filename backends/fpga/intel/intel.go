package intel

import (
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// Inventory is what was found.
type Inventory struct {
	// Cards are by PCI address.
	Cards []Card
	// Problems are what is left out or uncertain.
	Problems []driver.Problem
	// Unstable: the machine changed during each attempt to read it: the
	// inventory may be half old and half new.
	Unstable bool
}

// EngineOf returns the engine that programs the ports of a card: its own, or that of its
// physical function; nil if there is none, as in a virtual machine.
func (i Inventory) EngineOf(c Card) *Engine { return i.managerOf(c).Engine }

// managerOf returns the card that has the engine of a card: itself, or its physical function
// if that is there.
func (i Inventory) managerOf(c Card) Card {
	if c.Engine == nil && c.Physical != nil {
		for _, other := range i.Cards {
			if other.PCI.Address == *c.Physical {
				return other
			}
		}
	}
	return c
}

// Family is a kernel driver of the cards.
type Family string

const (
	// DFL is the driver in Linux.
	DFL Family = "dfl"
	// OPAE is the older one, intel-fpga.
	OPAE Family = "opae"
)

// Card is a PCI function with a region. A board has one or more of them.
type Card struct {
	// ID stays the same whatever the order in which cards are found; see [CardID].
	ID string
	// PCI is the card on the bus: address, IDs, NUMA node, bridges above.
	PCI    pci.Device
	Family Family
	// Subsystem is the PCI ID of the subsystem, for devices that only it distinguishes (see
	// [Card.Model]); else 0.
	Subsystem uint16
	// Region is the driver's name, such as region0 or intel-fpga-dev.0, and Dir where it
	// is, below the root of sysfs. They change over a reload of the driver.
	Region, Dir string
	// Board is function 0 of the board's slot: cards with the same Board fail together.
	Board pci.Address
	// Physical is the physical function of a virtual one; nil for others.
	Physical *pci.Address
	// Interface is the ID that a bitstream must fit, 32 hexadecimal digits in lower case. It is
	// the engine's, for a virtual function that of its physical one; empty if the kernel does
	// not report it.
	Interface string
	// Engine is nil for a function that has none.
	Engine *Engine
	// Ports are by number; there may be none.
	Ports []Port
}

// Engine is the FPGA management engine (FME), through which ports are programmed.
type Engine struct {
	Node Node
	// BitstreamID and Metadata are those of the static part of the FPGA; 0 if they are
	// not known.
	BitstreamID, Metadata uint64
	// Ports is how many ports the FPGA has, whichever function they are assigned to; 0
	// if it is not known.
	Ports int
	// Socket is the CPU socket of an FPGA that is in one package with it, else 0; nil if it is not known.
	Socket *int
	// Firmware are versions of the board's controller by the kernel's name for them,
	// such as bmcfw_version.
	Firmware map[string]string
	// Manager is the state of fpga_manager, such as "operating", or "unknown" before the first
	// programming.
	Manager string
	// Registers are those of errors.
	Registers []Register
}

// Port has an accelerator function that a container can be given.
type Port struct {
	// ID is that of the card and Number; see [PortID].
	ID string
	// Number is the port's number in the FPGA, which its engine uses.
	Number int
	Node   Node
	// AFU is the ID of the accelerator function, 32 hexadecimal digits in lower case;
	// empty but in the state Loaded.
	AFU   string
	State State
	// PowerState is 0 for normal, and for more and more throttling 1, 2 and 6 (AP1, AP2
	// and AP6 in Documentation/ABI/testing/sysfs-platform-dfl-port).
	PowerState uint8
	Registers  []Register
}

// State is the state of a port's accelerator function.
type State string

const (
	// Loaded has an AFU ID.
	Loaded State = "loaded"
	// Unloaded is one whose ID is all f.
	Unloaded State = "unloaded"
	// Unreported is one that has no ID, as in OFS cards.
	Unreported State = "unreported"
	// Busy is a port in reset or being programmed: the driver refuses to report the ID.
	Busy State = "busy"
)

// Node is a device node.
type Node struct {
	// Name is that below /dev, such as dfl-port.0, and that of the directory in the
	// region's. It changes over a reload of the driver.
	Name         string
	Major, Minor uint32
}

// Register is an error register.
type Register struct {
	// Name is the kernel's, such as catfatal_errors.
	Name string
	// File is its path below the root of sysfs. Errors are cleared by writing the value
	// back to those that can be written.
	File string
	// High is the upper half of registers of 128 bits.
	High, Low uint64
}

// Raised reports whether the register is not 0.
func (r Register) Raised() bool { return r.High != 0 || r.Low != 0 }

// Quantity is what a sensor measures.
type Quantity string

const (
	// Temperature is in degrees Celsius.
	Temperature Quantity = "temperature"
	// Power is in watts.
	Power Quantity = "power"
	// Voltage is in volts.
	Voltage Quantity = "voltage"
	// Current is in amperes.
	Current Quantity = "current"
)

// Sensor is a value that the card measures.
type Sensor struct {
	// Chip and Name are the kernel's, such as n3000bmc_hwmon and temp1; Label is for
	// people, and may be empty.
	Chip, Name, Label string
	Quantity          Quantity
	// Value is in the quantity's unit, if Known. A transceiver that is not plugged in
	// has a sensor without a value.
	Value float64
	Known bool
	// Critical is a limit in that unit; 0 if there is none.
	Critical float64
	// Alarms are raised, such as temp1_crit_alarm.
	Alarms []string
}
