package ioctl

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// names are those of the requests after the family's prefix.
var names = map[uint32]string{portReset: "PORT_RESET", portPR: "FME_PORT_PR"}

// Error is an error of a driver. [errors.Is] finds its number, such as [unix.EIO].
type Error struct {
	// Request is the name in the driver's header, such as "DFL_FPGA_PORT_RESET".
	Request string
	// Node is the path of the device node.
	Node  string
	Errno unix.Errno
	// Faults are the card's errors for a bitstream, after EIO of an OPAE driver. DFL reports
	// them elsewhere: in the file status of the engine's fpga_manager.
	Faults Faults

	number uint32
	length int
}

// Unwrap returns the number.
func (e *Error) Unwrap() error { return e.Errno }

// Error returns a message for the operator.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s of the node %s: %s", e.Request, e.Node, e.why())
	if e.Faults != 0 {
		text += fmt.Sprintf(" (%s)", e.Faults)
	}
	return fmt.Sprintf("%s: %v", text, e.Errno)
}

func (e *Error) why() string {
	if why := reasons[e.number][e.Errno]; why != "" {
		if e.number == portPR && e.Errno == unix.EINVAL && e.length%4 != 0 {
			why += fmt.Sprintf(", or the kernel is older than 5.4 and takes multiples of 4 bytes only (the bitstream has %d)", e.length)
		}
		return why
	}
	if why := general[e.Errno]; why != "" {
		return why
	}
	return "the driver refused it"
}

// general are the meanings of numbers for all requests.
var general = map[unix.Errno]string{
	unix.EBUSY:  "another program is using it: try again when that is done",
	unix.EAGAIN: "the driver cannot do it now: try again",
	unix.EINTR:  "signals interrupted it again and again: try again",
	unix.EINVAL: "the driver does not take the request: the node is no such node, or the card has gone meanwhile",
	unix.ENOTTY: "the node is not one of this driver: the FPGA driver was replaced by another",
	unix.ENOSYS: "a filter of system calls forbids it",
	unix.EPERM:  "it is not allowed: the container lacks the device or a capability",
	unix.EACCES: "it is not allowed: the container lacks the device or a capability",
	unix.ENODEV: "the card or its driver has gone",
	unix.ENXIO:  "the card or its driver has gone",
	unix.ENOMEM: "the kernel has no memory for it: try again when the machine has some",
}

// reasons are the meanings of numbers for one request (port_reset in dfl-afu-main.c; fme_pr in
// dfl-fme-pr.c with its callees: fpga-region.c, fpga-mgr.c, dfl-fme-mgr.c).
var reasons = map[uint32]map[unix.Errno]string{
	portReset: {
		unix.ETIMEDOUT: "the port has transfers that do not end, and stays in reset: reload the driver, or power-cycle the card",
	},
	portPR: {
		unix.EBUSY:     "the card is being programmed by another program: try again when that is done",
		unix.EINVAL:    "the card has no such port, or has gone meanwhile",
		unix.EIO:       "the card found the bitstream faulty or not made for it; what the port has is unknown: program another one, and reload the driver if the port stays in reset",
		unix.ETIMEDOUT: "the card did not answer in time; what the port has is unknown: reload the driver, or power-cycle the card",
		unix.EFAULT:    "the bitstream could not be read: its file was made shorter meanwhile",
		unix.ENOMEM:    "the kernel has no memory for a copy of the bitstream: try again when the machine has some",
		unix.ENOENT:    "the port has no driver: reload the driver",
		unix.EOVERFLOW: "the bitstream is too large for the driver",
	},
}

// Faults are errors of a partial reconfiguration, a bit each, as the card's register
// has them (FME_PR_ERR in dfl-fme-mgr.c; DEFINE_FPGA_PR_ERR_MSG in OPAE's header).
type Faults uint64

// The errors.
const (
	OperationError Faults = 1 << iota
	CRCError
	IncompatibleBitstream
	ProtocolError
	FIFOOverflow
	TimeoutError
	SecureLoadError
)

var faults = []string{
	"operation error", "CRC error", "incompatible bitstream", "protocol error", "FIFO overflow", "timeout", "secure load error",
}

// String lists the errors: "CRC error, FIFO overflow".
func (f Faults) String() string {
	var all []string
	for i, name := range faults {
		if f&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	if rest := f >> len(faults) << len(faults); rest != 0 || f == 0 {
		all = append(all, fmt.Sprintf("0x%x", uint64(rest)))
	}
	return strings.Join(all, ", ")
}
