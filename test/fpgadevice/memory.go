package fpgadevice

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/ioctl"
)

// memory is that of who calls: the kernel reads and writes it for us, as a driver does
// with copy_from_user and copy_to_user, so that a bad address is an answer.
type memory struct {
	pid int
	// valid says whether the caller still waits, so that no other process has its number.
	valid func() bool
}

func (m memory) read(b []byte, address uint64) unix.Errno {
	return m.copy(b, address, unix.ProcessVMReadv)
}

func (m memory) write(b []byte, address uint64) unix.Errno {
	return m.copy(b, address, unix.ProcessVMWritev)
}

func (m memory) copy(b []byte, address uint64, move func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) unix.Errno {
	local := []unix.Iovec{{Base: unsafe.SliceData(b)}}
	local[0].SetLen(len(b))
	n, err := move(m.pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	runtime.KeepAlive(b)
	var errno unix.Errno
	switch {
	case !m.valid():
		return unix.ESRCH
	case n == len(b):
		return 0
	case errors.As(err, &errno) && errno != unix.EFAULT:
		return errno // of our own rights
	}
	return unix.EFAULT
}

// Open is an [ioctl.Opener] for the nodes of the tree.
func (d *Device) Open(path string) (ioctl.Node, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if filepath.Dir(real) != d.dev {
		return nil, fmt.Errorf("%s is no node of the tree %s", path, d.tree.Root)
	}
	return &node{device: d, path: path, real: real, info: info}, nil
}

// node is one that code of this process has open.
type node struct {
	device *Device
	path   string
	real   string
	info   os.FileInfo
	closed bool
}

func (n *node) Path() string { return n.path }

func (n *node) Ioctl(request uint32, argument unsafe.Pointer) error {
	if n.closed {
		return unix.EBADF
	}
	// A node of the same name is another one, after its driver was loaded anew.
	if now, err := os.Stat(n.real); err != nil || !os.SameFile(now, n.info) {
		return unix.EINVAL
	}
	errno := n.device.serve(call{
		node: filepath.Base(n.real), request: request, address: uint64(uintptr(argument)),
		memory: memory{os.Getpid(), func() bool { return true }},
	})
	runtime.KeepAlive(argument)
	if errno != 0 {
		return errno
	}
	return nil
}

func (n *node) Close() error {
	if n.closed {
		return unix.EBADF
	}
	n.closed = true
	return nil
}
