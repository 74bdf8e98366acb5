package ioctl

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Family is a driver's own kind of requests.
type Family uint8

// The families.
const (
	// DFL is Linux's driver: /dev/dfl-port.N and /dev/dfl-fme.N.
	DFL Family = iota
	// OPAE is Intel's older driver: /dev/intel-fpga-port.N and /dev/intel-fpga-fme.N.
	OPAE
)

// String is the prefix that the family's requests have in its header.
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
	portInfo  = 0x41
	portPR    = 0x80
)

// types are the type bytes of the families' requests.
var types = [...]uint32{DFL: 0xb6, OPAE: 0xb5}

// MaxPayload is the size in bytes of the largest payload: its length has 32 bits, and
// the drivers round it up to a multiple of 64 at most.
const MaxPayload = math.MaxUint32 &^ 63

// interruptions is how often a request that a signal interrupted is made again. The
// drivers do not look at signals; what is in between (a debugger, a filter) may.
const interruptions = 16

// dflPortInfo is struct dfl_fpga_port_info.
type dflPortInfo struct {
	size, flags      uint32
	regions, message uint32
}

// opaePortInfo is struct fpga_port_info.
type opaePortInfo struct {
	size, flags           uint32
	capability            uint32
	regions, message, irq uint32
}

// dflPR is struct dfl_fpga_fme_port_pr.
type dflPR struct {
	size, flags  uint32
	port, length uint32
	address      uint64
}

// opaePR is struct fpga_fme_port_pr: the driver says in status what was wrong.
type opaePR struct {
	dflPR
	status uint64
}

// Info is what a port has.
type Info struct {
	// Regions is how many ranges of registers can be mapped.
	Regions uint32
	// Messages is how many user messages there are (UMsg).
	Messages uint32
	// Interrupts is how many an accelerator function has; OPAE only.
	Interrupts uint32
}

// ResetPort resets a port with its accelerator function, by the port's own node. What
// is loaded stays, and so do the port's error registers; transfers of who uses it now
// fail. The drivers allow it at any time.
func ResetPort(n Node, f Family) error {
	return call(n, f, portReset, nil, 0, nil)
}

// PortInfo says what a port has, by the port's own node. It is the cheapest request
// that only such a node answers.
func PortInfo(n Node, f Family) (Info, error) {
	if f == OPAE {
		a := opaePortInfo{size: uint32(unsafe.Sizeof(opaePortInfo{}))}
		err := call(n, f, portInfo, unsafe.Pointer(&a), 0, nil)
		return Info{Regions: a.regions, Messages: a.message, Interrupts: a.irq}, err
	}
	a := dflPortInfo{size: uint32(unsafe.Sizeof(dflPortInfo{}))}
	err := call(n, f, portInfo, unsafe.Pointer(&a), 0, nil)
	return Info{Regions: a.regions, Messages: a.message}, err
}

// ProgramPort puts a bitstream into a port of a card, by the node of the card's
// management engine. The port's number is the card's own, and the payload what follows
// a .gbs file's metadata, as it is; this process does not read it, so that it may be
// mapped from a file that another makes shorter.
//
// The driver holds the port in reset meanwhile. It does not compare interface IDs: the
// caller does, and a card that finds a bitstream incompatible answers EIO.
//
// After an error it is unknown what the port has. As the code of DFL goes, the port is
// then held in reset until the driver is loaded anew, even through another programming
// that is fine: fpga_region_program_fpga enables it on success only, and the driver
// counts. Its file afu_id answers EBUSY meanwhile. OPAE's driver enables it always.
func ProgramPort(n Node, f Family, port uint32, payload []byte) error {
	switch {
	case len(payload) == 0:
		return fmt.Errorf("program port %d by %s: the bitstream is empty", port, n.Path())
	case uint64(len(payload)) > MaxPayload:
		return fmt.Errorf("program port %d by %s: the bitstream has %d bytes, and the driver takes %d at most", port, n.Path(), len(payload), uint32(MaxPayload))
	}
	// The address is in the argument as a number, which keeps nothing alive and in its
	// place. Memory that is not Go's needs neither, and Pin leaves it alone.
	var pin runtime.Pinner
	defer pin.Unpin()
	first := unsafe.SliceData(payload)
	pin.Pin(first)
	a := dflPR{port: port, length: uint32(len(payload)), address: uint64(uintptr(unsafe.Pointer(first)))}
	if f == OPAE {
		b := opaePR{dflPR: a}
		b.size = uint32(unsafe.Sizeof(b))
		return call(n, f, portPR, unsafe.Pointer(&b), len(payload), &b.status)
	}
	a.size = uint32(unsafe.Sizeof(a))
	return call(n, f, portPR, unsafe.Pointer(&a), len(payload), nil)
}

// call makes a request; length is that of the payload, and status what the driver says
// of a failure, if it does.
func call(n Node, f Family, request uint32, argument unsafe.Pointer, length int, status *uint64) error {
	if int(f) >= len(types) {
		return fmt.Errorf("%s of the node %s: no such family of drivers", f, n.Path())
	}
	var err error
	for range interruptions {
		if err = n.Ioctl(types[f]<<8|request, argument); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	var errno unix.Errno
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &errno):
		return fmt.Errorf("%s_%s of the node %s: %w", f, names[request], n.Path(), err)
	}
	e := &Error{Request: f.String() + "_" + names[request], Node: n.Path(), Errno: errno, number: request, length: length}
	if status != nil {
		e.Faults = Faults(*status)
	}
	return e
}
