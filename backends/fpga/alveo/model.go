package alveo

import (
	"fmt"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// Inventory is what was found.
type Inventory struct {
	// Cards are by PCI address.
	Cards []Card
	// Problems are what is left out or uncertain.
	Problems []driver.Problem
	// Unstable: the machine changed during each attempt to read it.
	Unstable bool
	// Unloaded: neither xocl nor xclmgmt is loaded, and nothing is theirs.
	Unloaded bool
}

// Card is a user function, a management function, or both of one slot.
type Card struct {
	User       *User
	Management *Management
	// Serial is what the board's controller reports to either function; empty if there is no
	// controller, or it has none.
	Serial string
	// Unread is why the serial number could not be read, where there is a file for it.
	Unread error
	// Board is the drivers' name for the kind of card, such as u250; it may be empty.
	Board string
	// Shell is that of the user function, or of the other one while the user function
	// does not report. Its VBNV is empty while neither does.
	Shell Shell
}

// At returns the address of the user function, or of the other one if there is none.
func (c Card) At() pci.Address { return c.pci().Address }

func (c Card) pci() pci.Device {
	if c.User != nil {
		return c.User.PCI
	}
	return c.Management.PCI
}

// Offline returns the file that shows why the card cannot be used now: it is in reset, comes back
// from one, or was shut down. It is empty if the card is on.
func (c Card) Offline() string {
	switch {
	case c.User != nil && c.User.Offline != "":
		return c.User.Offline
	case c.Management != nil && c.Management.Offline:
		return c.Management.file("dev_offline")
	}
	return ""
}

// User is the function that a container is given.
type User struct {
	PCI pci.Device
	// Dir is where it is, below the root of sysfs.
	Dir string
	// Render are its render nodes, such as renderD128; QDMA: it also has a node of
	// the streaming DMA engine.
	Render []string
	QDMA   bool
	// Ready: xocl has reached xclmgmt, or the daemon that replaces it in a virtual machine.
	Ready bool
	// Shutdown: it was shut down, to reset or to flash the card.
	Shutdown bool
	// Offline is the file that shows that it is offline; empty if it is on.
	Offline string
	// Shell is empty while the card is in reset.
	Shell Shell
	// Xclbins are those that are loaded, by slot; most cards have one slot. Reported is false if the
	// driver does not report them.
	Xclbins  []bitstream.UUID
	Reported bool
	// Firewall is the state of the firewalls; nil if it is not reported.
	Firewall *Firewall
	// controllers are the directories of the board's controller.
	controllers []string
}

func (u User) file(name string) string { return u.Dir + "/" + name }

// Management is the function that manages the card.
type Management struct {
	PCI pci.Device
	// Dir is where it is, below the root of sysfs.
	Dir string
	// Instance is the number of its node, /dev/xclmgmt<n>.
	Instance uint32
	Ready    bool
	Offline  bool
	// Golden is what shows that the card runs the golden image that it came with; empty if it runs another one.
	Golden string
	Shell  Shell
	// Firewall is the state of the firewalls; nil if it is not reported.
	Firewall *Firewall
	// Banks are the banks of memory that count errors.
	Banks []Bank
	// controllers are the directories of the board's controller.
	controllers []string
}

func (m Management) file(name string) string { return m.Dir + "/" + name }

// Shell is the static part of the card.
type Shell struct {
	// VBNV is vendor, board, name and version, such as
	// xilinx_u250_gen3x16_xdma_shell_4_1.
	VBNV string
	// Timestamp is the time of its build, in seconds since 1970; 0 for shells that UUIDs
	// identify.
	Timestamp uint64
	// Logic are the UUIDs of its partitions; Interfaces are those of what bitstreams must
	// fit. Shells of one partition have neither.
	Logic, Interfaces []bitstream.UUID
}

// Firewall is the state of the AXI firewalls of a card, which cut off what violates the
// protocol.
type Firewall struct {
	// File is where the status is, below the root of sysfs.
	File string
	// Status is not 0 while one is tripped; Level is the number of that one, -1 for none or if it is not known.
	Status uint64
	Level  int
	// Detected is the last one that was tripped, which stays until the driver is loaded
	// again: its status, level and name, and when, in seconds since 1970.
	Detected      uint64
	DetectedLevel int
	DetectedName  string
	DetectedTime  uint64
}

// Tripped reports whether one is tripped now.
func (f *Firewall) Tripped() bool { return f != nil && f.Status != 0 }

// Bank is a bank of memory that corrects and counts errors.
type Bank struct {
	// Name is that of the driver's device, such as mig.m.2097152, or what comes after
	// its kind.
	Name string
	// Corrected and Uncorrected are since the driver was loaded or the card reset; nil if they are not known.
	Corrected, Uncorrected *uint64
}

// ModelOf returns the model of a PCI function that the drivers may support, by its IDs
// alone; "" for other makers. Amazon's IDs are not included: they are used for other
// accelerators, too.
func ModelOf(d pci.Device) string {
	maker := map[uint16]string{0x10ee: "AMD", 0x13fe: "Advantech", 0x3475: "Arista"}[d.Vendor]
	if maker == "" {
		return ""
	}
	return fmt.Sprintf("an %s FPGA %04x:%04x", maker, d.Vendor, d.ID)
}
