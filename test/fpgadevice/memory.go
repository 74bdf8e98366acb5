package fpgadevice

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/test/trap"
)

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
		memory: trap.Memory{PID: os.Getpid(), Valid: func() bool { return true }},
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
