package ioctl

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Node is a device node that is open. It is used by one goroutine at a time, and not
// closed while a request is in the kernel.
type Node interface {
	// Ioctl makes a request of the kernel; its error is a [unix.Errno]. The argument is
	// nil or what the request needs, and stays where it is until Ioctl returns; memory
	// whose address is in the argument is the caller's to keep.
	Ioctl(request uint32, argument unsafe.Pointer) error
	// Path is the path at which it was opened, for errors.
	Path() string
	Close() error
}

// Opener opens a device node: [Open], or a fake kernel's in tests.
type Opener func(path string) (Node, error)

// Open opens a device node of the kernel, for reading and writing. The error is for the
// operator, and wraps a [unix.Errno].
func Open(path string) (Node, error) {
	for range interruptions {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return &file{fd: fd, path: path}, nil
		case !errors.Is(err, unix.EINTR):
			return nil, unopened(path, err)
		}
	}
	return nil, unopened(path, unix.EINTR)
}

// unopened returns why a node could not be opened.
func unopened(path string, err error) error {
	why := "it cannot be opened"
	switch {
	case errors.Is(err, unix.ENOENT):
		why = "there is no such node: the card or its driver has gone, or /dev of the host is not where it is expected"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		why = "it may not be opened: the container must be privileged, or be given the device"
	case errors.Is(err, unix.EBUSY):
		why = "another program has it open for itself alone (O_EXCL): end that program"
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		why = "no driver is behind it: the card or its driver has gone"
	}
	return fmt.Errorf("open the device node %s: %s: %w", path, why, err)
}

// file is a node of the kernel. It is no os.File, which would have the runtime wait for
// it with epoll; these nodes block.
type file struct {
	fd   int
	path string
}

func (f *file) Ioctl(request uint32, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), uintptr(request), uintptr(argument))
	if errno != 0 {
		return errno
	}
	return nil
}

func (f *file) Path() string { return f.path }

func (f *file) Close() error {
	if err := unix.Close(f.fd); err != nil {
		return fmt.Errorf("close the device node %s: %w", f.path, err)
	}
	return nil
}

// interruptions is how often an interrupted request is repeated. The drivers do not handle
// signals; layers in between (a debugger, a filter) may.
const interruptions = 16
