package fpgadevice

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/trap"
)

// answer answers one system call.
func (d *Device) answer(c *trap.Call) trap.Answer {
	switch c.Number {
	case unix.SYS_OPENAT:
		if d.openStore(c) {
			return trap.Answered
		}
		return trap.Kernel
	case unix.SYS_WRITE:
		return d.writeStore(c)
	}
	return d.control(c)
}

// control answers an ioctl.
func (d *Device) control(t *trap.Call) trap.Answer {
	c := call{memory: t.Memory(), pid: t.Process()}
	path, err := os.Readlink(t.Descriptor())
	live, gone := strings.CutSuffix(d.path(path), " (deleted)")
	switch {
	case !t.Waits():
		return trap.Answer{}
	case err != nil, filepath.Dir(live) != d.dev:
		return trap.Kernel // no node of ours: as the kernel says
	case gone:
		return trap.Answer{Errno: unix.EINVAL}
	}
	c.node, c.request, c.address = filepath.Base(live), uint32(t.Arguments[1]), t.Arguments[2]
	return trap.Answer{Errno: d.serve(c)}
}
