package fpgadevice

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/trap"
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

// call is an ioctl that came in.
type call struct {
	node    string
	request uint32
	address uint64
	memory  trap.Memory
	pid     int
}

// serve is what the driver of a node answers: 0 or an error.
func (d *Device) serve(c call) unix.Errno {
	p, ok := d.locate(c.node)
	if !ok {
		return unix.EINVAL // as both drivers, once a device is unregistered
	}
	kind := uint32(typeDFL)
	if p.opae {
		kind = typeOPAE
	}
	if c.request>>8 != kind {
		return unix.EINVAL
	}
	switch number := c.request & 0xff; {
	case number == portReset && !p.engine:
		return d.reset(p, c)
	case number == fmePortPR && p.engine:
		return d.program(p, c)
	}
	return unix.EINVAL
}

// reset resets a port. What is loaded stays, and so do its error registers.
func (d *Device) reset(p place, c call) unix.Errno {
	number, ok := d.number(p, "id")
	if c.address != 0 || !ok {
		return unix.EINVAL
	}
	noted := &Call{Request: Reset, Node: p.node, Function: p.at, Port: number, PID: c.pid}
	answer, needs := d.begin(noted)
	if !d.wait(answer, needs) {
		return d.end(noted, unix.ENODEV)
	}
	if answer.Gone {
		return d.end(noted, d.unplug(p))
	}
	return d.end(noted, answer.Errno)
}

// program is FME_PORT_PR.
func (d *Device) program(p place, c call) unix.Errno {
	argument := make([]byte, 24)
	if p.opae {
		argument = make([]byte, 32)
	}
	if errno := c.memory.Read(argument, c.address); errno != 0 {
		return errno
	}
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(argument[4*i:]) }
	size, flags, port, length := word(0), word(1), word(2), word(3)
	address := binary.NativeEndian.Uint64(argument[16:])
	if size < uint32(len(argument)) || flags != 0 {
		return unix.EINVAL
	}
	if ports, ok := d.number(p, "ports_num"); !ok || uint64(port) >= uint64(ports) {
		return unix.EINVAL
	}
	if length == 0 || length > math.MaxUint32-3 {
		return unix.ENOMEM // vmalloc of nothing
	}
	noted := &Call{Request: Program, Node: p.node, Function: p.at, Port: int(port), Size: int(length), PID: c.pid}
	var faults uint64
	errno := func() unix.Errno {
		lock := d.lock(p.node)
		lock.Lock() // the driver programs one port of a card at a time
		defer lock.Unlock()
		var errno unix.Errno
		if noted.Sum, errno = sumOf(c.memory, address, length); errno != 0 {
			return errno
		}
		errno, faults = d.configure(p, noted)
		return errno
	}()
	if p.opae { // the status comes with every answer
		binary.NativeEndian.PutUint64(argument[24:], faults)
		if errno := c.memory.Write(argument, c.address); errno != 0 {
			return errno
		}
	}
	return errno
}

// configure is what the card makes of a payload.
func (d *Device) configure(p place, noted *Call) (unix.Errno, uint64) {
	answer, needs := d.begin(noted)
	if !d.wait(answer, needs) {
		return d.end(noted, unix.ENODEV), 0
	}
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

// lock is the one that the driver of an engine has.
func (d *Device) lock(engine string) *sync.Mutex {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engines[engine] == nil {
		d.engines[engine] = &sync.Mutex{}
	}
	return d.engines[engine]
}

// plain is an ID as the kernel writes it.
func plain(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }

// sumOf is the SHA-256 of a part of the caller's memory, which need not fit into ours.
func sumOf(m trap.Memory, address uint64, length uint32) (sum [sha256.Size]byte, errno unix.Errno) {
	hash := sha256.New()
	chunk := make([]byte, min(length, 1<<20))
	for length > 0 {
		part := chunk[:min(length, uint32(len(chunk)))]
		if errno := m.Read(part, address); errno != 0 {
			return sum, errno
		}
		hash.Write(part)
		address += uint64(len(part))
		length -= uint32(len(part))
	}
	return [sha256.Size]byte(hash.Sum(nil)), 0
}
