package intel

import "github.com/accelmux/accelmux/backends/pci"

// Inventory is what was found.
type Inventory struct {
	// Cards are by PCI address.
	Cards []Card
	// Problems are what is left out or doubtful.
	Problems []Problem
	// Unsettled says that the machine changed each time while it was read: the
	// inventory may be half old and half new.
	Unsettled bool
}

// EngineOf is the engine that programs the ports of a card: its own, or that of its
// physical function; nil if there is none, as in a virtual machine.
func (i Inventory) EngineOf(c Card) *Engine { return i.managerOf(c).Engine }

// managerOf is the card that has the engine of a card: itself, or its physical function
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

// Problem is something amiss with a device.
type Problem struct {
	// Device is a PCI address such as "0000:05:00.0", with a port if it is only that
	// one, "0000:05:00.0 dfl-port.1", or what a class has, such as "region3".
	Device string
	// Lost says that the device is left out for it.
	Lost bool
	// Err names the file where there is one, and says what is wrong.
	Err error
}

// Family is the kernel's driver that a card is under.
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
	// PCI is what the bus says: address, IDs, NUMA node, bridges above.
	PCI    pci.Device
	Family Family
	// Subsystem is the PCI ID of the subsystem, for the devices that only it tells
	// apart (see [Card.Model]); else 0.
	Subsystem uint16
	// Region is the driver's name, such as region0 or intel-fpga-dev.0, and Dir where it
	// is, below the root of sysfs. They change over a reload of the driver.
	Region, Dir string
	// Board is function 0 of the board's slot: cards with the same Board share fate.
	Board pci.Address
	// Physical is the function that a virtual function is of; nil for another.
	Physical *pci.Address
	// Interface is what a bitstream must fit, 32 hexadecimal digits in lower case. It is
	// that of the engine, which a virtual function has at its physical one; empty if the
	// kernel does not say.
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
	// Socket is the CPU socket of an FPGA that is in one package with it, else 0.
	Socket int
	// Firmware are versions of the board's controller by the kernel's name for them,
	// such as bmcfw_version.
	Firmware map[string]string
	// Manager is the state of fpga_manager, such as "operating" or "unknown", which is
	// what it says before anything was programmed.
	Manager string
	// Registers are those of errors.
	Registers []Register
}

// Port is what a container can be given: an accelerator function and how to reach it.
type Port struct {
	// ID is that of the card and Number; see [PortID].
	ID string
	// Number is the port's number in the FPGA, which its engine knows it by.
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

// State is what is known of the accelerator function of a port.
type State string

const (
	// Loaded has an AFU ID.
	Loaded State = "loaded"
	// Unloaded is one whose ID is all f.
	Unloaded State = "unloaded"
	// Untold is one that has no ID, as in OFS cards.
	Untold State = "untold"
	// Busy is a port in reset or being programmed: the driver refuses to say the ID.
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

// Raised reports whether the register says an error.
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
	// Max and Critical are limits in that unit; 0 if there is none.
	Max, Critical float64
	// Alarms are raised, such as temp1_crit_alarm.
	Alarms []string
}
