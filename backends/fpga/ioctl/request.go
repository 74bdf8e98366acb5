package ioctl

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxPayload is the size in bytes of the largest payload: its length has 32 bits, and
// the drivers round it up to a multiple of 64 at most.
const MaxPayload = math.MaxUint32 &^ 63

// dflPR is struct dfl_fpga_fme_port_pr.
type dflPR struct {
	size, flags  uint32
	port, length uint32
	address      uint64
}

// opaePR is struct fpga_fme_port_pr: the driver reports in status what was wrong.
type opaePR struct {
	dflPR
	status uint64
}

// ResetPort resets a port with its accelerator function, by the port's own node. The loaded
// function stays, and so do the port's error registers; transfers in progress fail. The drivers
// allow it at any time.
func ResetPort(n Node, f Family) error {
	return call(n, f, portReset, nil, 0, nil)
}

// ProgramPort programs a bitstream into a port of a card, by the node of the card's management
// engine. The port's number is the card's own, and the payload all that follows a .gbs file's
// metadata; this process does not read it, so it may be mapped from a file that another process
// truncates.
//
// The driver holds the port in reset meanwhile. It does not compare interface IDs: the caller
// does, and for an incompatible bitstream the card returns EIO.
//
// After an error the content of the port is unknown. By the code of DFL, the port is then held
// in reset until the driver is reloaded, even through a later programming that succeeds:
// fpga_region_program_fpga enables it on success only, and the driver counts. Its file afu_id
// returns EBUSY meanwhile. OPAE's driver always enables it.
func ProgramPort(n Node, f Family, port uint32, payload []byte) error {
	switch {
	case len(payload) == 0:
		return fmt.Errorf("program port %d by %s: the bitstream is empty", port, n.Path())
	case uint64(len(payload)) > MaxPayload:
		return fmt.Errorf("program port %d by %s: the bitstream has %d bytes, and the driver takes %d at most", port, n.Path(), len(payload), uint32(MaxPayload))
	}
	// The address is in the argument as a number, so it does not keep the memory alive and in
	// place. Memory that is not Go's needs neither, and Pin ignores it.
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

// call makes a request; length is that of the payload, and status what the driver reports
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
