package ioctl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fake is a node that records its requests, and returns errors in turn; it reads and writes as
// many bytes of the argument as the request has.
type fake struct {
	answers  []error
	write    []byte
	requests []uint32
	argument []byte
	payload  []byte
	closed   bool
}

// sizes are those of the arguments, by request.
var sizes = map[uint32]int{0xb680: 24, 0xb580: 32}

func (f *fake) Ioctl(request uint32, argument unsafe.Pointer) error {
	f.requests = append(f.requests, request)
	if argument != nil {
		memory := unsafe.Slice((*byte)(argument), sizes[request])
		f.argument = bytes.Clone(memory)
		if len(memory) >= 24 && request&0xff == portPR {
			at := *(**byte)(unsafe.Add(argument, 16))
			f.payload = bytes.Clone(unsafe.Slice(at, binary.NativeEndian.Uint32(memory[12:])))
		}
		copy(memory[len(memory)-len(f.write):], f.write)
	}
	if len(f.answers) == 0 {
		return nil
	}
	answer := f.answers[0]
	f.answers = f.answers[1:]
	return answer
}

func (f *fake) Path() string { return "/dev/dfl-fme.3" }

func (f *fake) Close() error {
	f.closed = true
	return nil
}

// numbers returns 32-bit numbers in the machine's order.
func numbers(all ...uint32) []byte {
	var b []byte
	for _, n := range all {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return b
}

// Verifies numbers and arguments of the requests to the byte, as the headers have them.
func TestRequests(t *testing.T) {
	for f, magic := range map[Family]uint32{DFL: 0xb600, OPAE: 0xb500} {
		n := &fake{}
		if err := ResetPort(n, f); err != nil || fmt.Sprint(n.requests) != fmt.Sprint([]uint32{magic | 0x40}) || n.argument != nil {
			t.Errorf("%s: reset: %v, requests %#x, argument %v", f, err, n.requests, n.argument)
		}
		n = &fake{}
		payload := []byte("a bitstream")
		if err := ProgramPort(n, f, 3, payload); err != nil || n.requests[0] != magic|0x80 || !bytes.Equal(n.payload, payload) {
			t.Errorf("%s: program: %v, requests %#x, payload %q", f, err, n.requests, n.payload)
		}
		want := numbers(24, 0, 3, 11)
		if f == OPAE {
			want = numbers(32, 0, 3, 11)
		}
		if !bytes.Equal(n.argument[:16], want) || f == OPAE && !bytes.Equal(n.argument[24:], make([]byte, 8)) {
			t.Errorf("%s: program: argument %v, want %v", f, n.argument, want)
		}
	}
}

// Verifies that a payload may be mapped memory that this process cannot read: only the kernel
// reads it.
func TestPayloadIsNotRead(t *testing.T) {
	memory := unreadable(t, os.Getpagesize())
	n, err := Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	if err := ProgramPort(n, DFL, 0, memory); !errors.Is(err, unix.ENOTTY) {
		t.Error(err)
	}
}

// unreadable returns memory that faults when it is read.
func unreadable(t *testing.T, size int) []byte {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	return memory
}

// Verifies that invalid requests are not made.
func TestRefused(t *testing.T) {
	n := &fake{}
	for name, err := range map[string]error{
		"is empty":   ProgramPort(n, DFL, 0, nil),
		"at most":    ProgramPort(n, DFL, 0, unreadable(t, MaxPayload+1)),
		"no such fa": ResetPort(n, 2),
	} {
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "/dev/dfl-fme.3") {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if len(n.requests) > 0 {
		t.Errorf("requests %#x", n.requests)
	}
}

// Verifies that an interrupted request is made again, but not without end.
func TestInterrupted(t *testing.T) {
	n := &fake{answers: []error{unix.EINTR, unix.EINTR}}
	if err := ResetPort(n, DFL); err != nil || len(n.requests) != 3 {
		t.Errorf("%v after %d requests", err, len(n.requests))
	}
	n = &fake{}
	for range 100 {
		n.answers = append(n.answers, unix.EINTR)
	}
	if err := ResetPort(n, DFL); !errors.Is(err, unix.EINTR) || len(n.requests) != interruptions {
		t.Errorf("%v after %d requests", err, len(n.requests))
	}
}

// Verifies that each error names request, node and meaning, and wraps its number.
func TestErrors(t *testing.T) {
	program := func(f Family, length int) func(Node) error {
		return func(n Node) error { return ProgramPort(n, f, 1, make([]byte, length)) }
	}
	reset := func(n Node) error { return ResetPort(n, DFL) }
	status := make([]byte, 8)
	binary.NativeEndian.PutUint64(status, 0x86)
	for name, c := range map[string]struct {
		call   func(Node) error
		errno  unix.Errno
		status []byte
		want   string
	}{
		"reset":      {reset, unix.ETIMEDOUT, nil, "DFL_FPGA_PORT_RESET of the node /dev/dfl-fme.3: the port has transfers that do not end"},
		"other":      {reset, unix.ENOTTY, nil, "replaced by another"},
		"rights":     {reset, unix.EPERM, nil, "the container lacks"},
		"unknown":    {reset, unix.EDOM, nil, "the driver refused it: numerical argument"},
		"busy":       {program(DFL, 4), unix.EBUSY, nil, "DFL_FPGA_FME_PORT_PR of the node /dev/dfl-fme.3: the card is being programmed by another"},
		"no port":    {program(DFL, 8), unix.EINVAL, nil, "no such port, or has gone meanwhile: invalid"},
		"old kernel": {program(DFL, 7), unix.EINVAL, nil, "multiples of 4 bytes only (the bitstream has 7)"},
		"faulty":     {program(DFL, 4), unix.EIO, nil, "found the bitstream faulty"},
		"says why":   {program(OPAE, 4), unix.EIO, status, "FPGA_FME_PORT_PR of the node /dev/dfl-fme.3: the card found the bitstream faulty or not made for it; what the port has is unknown: program another one, and reload the driver if the port stays in reset (CRC error, incompatible bitstream, 0x80): input/output error"},
		"shorter":    {program(OPAE, 4), unix.EFAULT, nil, "made shorter"},
		"gone":       {func(n Node) error { return ResetPort(n, OPAE) }, unix.ENODEV, nil, "FPGA_PORT_RESET of the node /dev/dfl-fme.3: the card or its driver has gone: no such device"},
	} {
		n := &fake{answers: []error{c.errno}, write: c.status}
		err := c.call(n)
		var e *Error
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.errno) || !errors.As(err, &e) || e.Node != n.Path() {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := ResetPort(&fake{answers: []error{fs.ErrClosed}}, DFL); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "PORT_RESET of the node") {
		t.Error(err)
	}
	if got := Faults(0).String(); got != "0x0" {
		t.Errorf("no faults are %q", got)
	}
}

// Verifies that a node of the kernel is opened for reading and writing, is not
// inherited, and answers with numbers; and why one cannot be opened.
func TestOpen(t *testing.T) {
	n, err := Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := ResetPort(n, DFL); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("reset of /dev/null: %v", err)
	}
	fd := n.(*file).fd
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	inherit, err2 := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err := errors.Join(err, err2); err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || inherit&unix.FD_CLOEXEC == 0 || n.Path() != os.DevNull {
		t.Errorf("%v, flags %#x and %#x of %s", err, flags, inherit, n.Path())
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Close(); !errors.Is(err, unix.EBADF) || !strings.Contains(err.Error(), os.DevNull) {
		t.Errorf("closed twice: %v", err)
	}
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no such node") {
		t.Error(err)
	}
	if _, err := Open(dir); !errors.Is(err, unix.EISDIR) || !strings.Contains(err.Error(), dir+": it cannot be opened") {
		t.Error(err)
	}
	for errno, want := range map[unix.Errno]string{unix.EACCES: "given the device", unix.EBUSY: "O_EXCL", unix.ENXIO: "no driver is behind it"} {
		if err := unopened("/dev/x", errno); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
