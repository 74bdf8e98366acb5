package fpgadevice

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/fpga/ioctl"
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
	if errno := n.device.serve(filepath.Base(n.real), request, argument); errno != 0 {
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
