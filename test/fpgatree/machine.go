package fpgatree

import (
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// Machine is what a tree is made of.
type Machine struct {
	// Cards are Intel's, Alveos AMD's under XRT.
	Cards  []Card
	Alveos []Alveo
	// Plain are FPGAs under Linux's FPGA subsystem alone.
	Plain []Plain
}

// Card is one board.
type Card struct {
	Model Model
	// Address is that of the function with the FPGA management engine; the others have
	// the same domain, bus and device.
	Address pci.Address
	// NUMA is what numa_node says; -1 for unknown.
	NUMA int
	// Interface is the ID of what bitstreams must fit, in 32 hexadecimal digits. Empty
	// means that the kernel does not say one.
	Interface string
	// AFU is the ID of the accelerator function of each port.
	AFU string
	// Ports is how many there are, at least 1; VFs how many of them belong to a virtual
	// function each, the first ports first.
	Ports, VFs int
	// Upper writes IDs in upper case. Padded fills files with NUL, as in captures.
	Upper, Padded bool
}

// Model is a kind of card.
type Model struct {
	// Device and Subsystem are the PCI IDs; the vendor is Intel.
	Device, Subsystem uint16
	// OPAE has the card under the older driver, in /sys/class/fpga.
	OPAE bool
	// Functions have a region each; the first has the management engine and the ports.
	// Strangers are functions of the same card that are no FPGA.
	Functions, Strangers []uint8
	// NoAFU leaves out afu_id, as OFS cards do.
	NoAFU bool
	// Bitstream and Metadata are bitstream_id and bitstream_metadata.
	Bitstream, Metadata uint64
	// SPI puts the board's controller, with its sensors, below an SPI bus.
	SPI bool
	// Alarms has the management engine's own sensors, which have alarms; without it
	// there are only those of the board's controller.
	Alarms bool
	// Controller is the name of the board's controller, such as n3000bmc; empty for none.
	Controller string
}

// Models of the captures.
var (
	D5005 = Model{
		Device: 0x0b2b, Functions: []uint8{0}, Bitstream: 0x202000200000237, Metadata: 0x1910174, SPI: true,
		Controller: "d5005bmc",
	}
	N3000 = Model{
		Device: 0x0b30, Functions: []uint8{0}, Bitstream: 0x202000200000237, Metadata: 0x1910174, SPI: true,
		Controller: "n3000bmc", Alarms: true,
	}
	N6000 = Model{
		Device: 0xbcce, Subsystem: 0x1770, Functions: []uint8{0, 1, 2, 4}, Strangers: []uint8{3}, NoAFU: true,
		Bitstream: 0x501020222df1b7a, Metadata: 0x2110055, Controller: "n6000bmc", Alarms: true,
	}
	Arria10 = Model{
		Device: 0x09c4, OPAE: true, Functions: []uint8{0}, Bitstream: 0x113000200000177, Metadata: 0x1809211,
	}
)

// NoAFU is the ID that a port has with no accelerator function loaded.
const NoAFU = "ffffffffffffffffffffffffffffffff"

// NewD5005 is a machine with one D5005, with the IDs of the capture.
func NewD5005() Machine {
	return Machine{Cards: []Card{{
		Model: D5005, Address: pci.Address{Bus: 0x05}, NUMA: 0,
		Interface: "9346116da52d5ca8b06aa9a389ef7c8d", AFU: "f7df405cbd7acf7222f144b0b93acd18",
	}}}
}

// NewN3000 is a machine with one N3000, with the IDs of the capture.
func NewN3000() Machine {
	return Machine{Cards: []Card{{
		Model: N3000, Address: pci.Address{Bus: 0x05}, NUMA: 0,
		Interface: "a5d72a3cc8b04939912cf715e5dc10ca", AFU: "9aeffe5f84570612c000c9660d824272",
	}}}
}

// NewN6000 is a machine with one N6000 under OFS: four functions with a region, of
// which only the first has an interface ID, and no AFU ID.
func NewN6000() Machine {
	return Machine{Cards: []Card{{
		Model: N6000, Address: pci.Address{Bus: 0x01}, NUMA: -1, Interface: "98b4d5bc98ba5f4b98d9a2841ccf11b0",
	}}}
}

// NewArria10 is a machine with one Arria 10 under the older driver, with the IDs of
// the capture.
func NewArria10() Machine {
	return Machine{Cards: []Card{{
		Model: Arria10, Address: pci.Address{Bus: 0x05}, NUMA: 0,
		Interface: "f64e598bea11517fa28e7bc65d885104", AFU: "d8424dc4a4a3c413f89e433683f9040b",
	}}}
}

// NewVF is a machine with a D5005 whose port belongs to a virtual function: the
// management engine is at 0000:05:00.0, the port at 0000:05:00.1.
func NewVF() Machine {
	m := NewD5005()
	m.Cards[0].VFs = 1
	return m
}

// NewMixed is a machine with cards of each kind on two sockets and in two PCI
// domains: IDs in either case, padding, several ports, virtual functions.
func NewMixed() Machine {
	d5005, n3000, n6000, arria := NewD5005().Cards[0], NewN3000().Cards[0], NewN6000().Cards[0], NewArria10().Cards[0]
	vf, two := d5005, n3000
	n3000.Address.Bus, n3000.NUMA, n3000.Upper = 0x3b, 1, true
	n6000.Address.Bus = 0x86
	arria.Address.Bus, arria.Padded, arria.Upper = 0xaf, true, true
	vf.Address, vf.VFs, vf.AFU = pci.Address{Domain: 1, Bus: 0x05}, 1, NoAFU
	two.Address, two.Ports, two.VFs, two.Padded = pci.Address{Domain: 0x10000, Bus: 0xe1}, 3, 2, true
	return Machine{Cards: []Card{d5005, n3000, n6000, arria, vf, two}}
}

// NewMany is a machine with n N3000.
func NewMany(n int) Machine {
	m := Machine{}
	for i := range n {
		c := NewN3000().Cards[0]
		c.Address.Bus, c.NUMA = uint8(0x11+0x10*i), i%2
		m.Cards = append(m.Cards, c)
	}
	return m
}

// at is the address of a function of the card.
func (c Card) at(function uint8) pci.Address {
	at := c.Address
	at.Function = function
	return at
}

// vf is the address of a virtual function, which come after the physical ones.
func (c Card) vf(i int) pci.Address {
	last := c.Model.Functions[len(c.Model.Functions)-1]
	return c.at(last + 1 + uint8(i))
}

// Port is the function that a port belongs to.
func (c Card) Port(number int) pci.Address {
	if number < c.VFs {
		return c.vf(number)
	}
	return c.Address
}

// id is an ID as the card writes it.
func (c Card) id(text string) string {
	if c.Upper {
		text = strings.ToUpper(text)
	}
	return c.text(text)
}

// text is a file as the card writes it.
func (c Card) text(text string) string {
	text += "\n"
	if c.Padded {
		text += strings.Repeat("\x00", 4096-len(text))
	}
	return text
}
