package ioctl

import "fmt"

// Family is a driver's own kind of requests.
type Family uint8

// The families.
const (
	// DFL is Linux's driver: /dev/dfl-port.N and /dev/dfl-fme.N.
	DFL Family = iota
	// OPAE is Intel's older driver: /dev/intel-fpga-port.N and /dev/intel-fpga-fme.N.
	OPAE
)

// String returns the prefix that the family's requests have in its header.
func (f Family) String() string {
	switch f {
	case DFL:
		return "DFL_FPGA"
	case OPAE:
		return "FPGA"
	}
	return fmt.Sprintf("Family(%d)", uint8(f))
}

// Requests, which are _IO: neither a direction nor a size is in the number. They are
// the same on all architectures that Go has Linux for but MIPS and PowerPC, which have
// a bit for "no direction".
const (
	portReset = 0x40
	portPR    = 0x80
)

// types are the type bytes of the families' requests.
var types = [...]uint32{DFL: 0xb6, OPAE: 0xb5}
