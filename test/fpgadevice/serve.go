package fpgadevice

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Types of the requests, and their numbers, from include/uapi/linux/fpga-dfl.h and
// OPAE's intel-fpga.h.
const (
	typeDFL, typeOPAE = 0xb6, 0xb5

	portReset = 0x40
	fmePortPR = 0x80
)

// Bits of the card's register of errors of a programming (dfl-fme-mgr.c).
const (
	operationError        = 1 << 0
	incompatibleBitstream = 1 << 2
)

// serve is what the driver of a node answers: 0 or an error.
func (d *Device) serve(node string, request uint32, argument unsafe.Pointer) unix.Errno {
	p, ok := d.locate(node)
	if !ok {
		return unix.EINVAL // as both drivers, once a device is unregistered
	}
	kind := uint32(typeDFL)
	if p.opae {
		kind = typeOPAE
	}
	if request>>8 != kind {
		return unix.EINVAL
	}
	switch number := request & 0xff; {
	case number == portReset && !p.engine:
		return d.reset(p, argument)
	case number == fmePortPR && p.engine:
		return d.program(p, argument)
	}
	return unix.EINVAL
}

// reset resets a port. What is loaded stays, and so do its error registers.
func (d *Device) reset(p place, argument unsafe.Pointer) unix.Errno {
	number, ok := d.number(p, "id")
	if argument != nil || !ok {
		return unix.EINVAL
	}
	noted := &Call{Request: Reset, Node: p.node, Port: number}
	answer := d.begin(noted)
	if answer.Gone {
		return d.end(noted, d.unplug(p))
	}
	return d.end(noted, answer.Errno)
}

// program is FME_PORT_PR.
func (d *Device) program(p place, pointer unsafe.Pointer) unix.Errno {
	size := 24
	if p.opae {
		size = 32
	}
	argument := unsafe.Slice((*byte)(pointer), size)
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(argument[4*i:]) }
	port, length := word(2), word(3)
	if word(0) < uint32(size) || word(1) != 0 {
		return unix.EINVAL
	}
	if ports, ok := d.number(p, "ports_num"); !ok || uint64(port) >= uint64(ports) {
		return unix.EINVAL
	}
	if length == 0 {
		return unix.ENOMEM // vmalloc of nothing
	}
	payload := unsafe.Slice(*(**byte)(unsafe.Add(pointer, 16)), length)
	noted := &Call{Request: Program, Node: p.node, Port: int(port), Sum: sha256.Sum256(payload)}
	d.programming.Lock()
	errno, faults := d.configure(p, noted)
	d.programming.Unlock()
	if p.opae { // the status comes with every answer
		binary.NativeEndian.PutUint64(argument[24:], faults)
	}
	return errno
}

// configure is what the card makes of a payload.
func (d *Device) configure(p place, noted *Call) (unix.Errno, uint64) {
	answer := d.begin(noted)
	if answer.Gone {
		return d.end(noted, d.unplug(p)), 0
	}
	card, _ := d.card(p.at)
	d.mu.Lock()
	known, ok := d.known[noted.Sum]
	d.mu.Unlock()
	errno, faults, afu := answer.Errno, answer.Faults, answer.AFU
	switch {
	case errno != 0:
	case !ok, !strings.EqualFold(plain(known.Interface), card.Interface):
		errno, faults = unix.EIO, incompatibleBitstream
	case afu == "":
		afu = plain(known.AFU)
	}
	if errno == unix.EIO && faults == 0 {
		faults = operationError
	}
	states := map[unix.Errno]string{0: "operating", unix.EIO: "write complete error", unix.ETIMEDOUT: "write init error"}
	if state := states[errno]; state != "" {
		d.report(p, state, faults)
	}
	if afu != "" {
		if err := d.load(card.Port(noted.Port), noted.Port, afu); err != nil {
			return d.end(noted, unix.EINVAL), 0 // it has gone
		}
	}
	return d.end(noted, errno), faults
}

// unplug takes the card of a node away, and answers what its driver does then.
func (d *Device) unplug(p place) unix.Errno {
	_, i := d.card(p.at)
	if err := d.tree.Unplug(i); err != nil {
		return unix.EIO
	}
	return unix.ETIMEDOUT
}

// plain is an ID as the kernel writes it.
func plain(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }
