package intel

import (
	"path/filepath"

	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// Driver implements [driver.Driver] for Intel cards under one kernel driver. It can be used
// concurrently.
type Driver struct {
	host   sdk.HostPaths
	family Family
	open   ioctl.Opener
	// read and write are those of files of sysfs.
	read     func(path string, limit int) ([]byte, error)
	write    func(path, text string) error
	firmware firmwares
}

// NewDriver returns the driver of a family; open is [ioctl.Open], or what stands for the
// kernel in tests.
func NewDriver(host sdk.HostPaths, family Family, open ioctl.Opener) *Driver {
	return &Driver{host: host, family: family, open: open, read: sysfs.Read, write: sysfs.Write}
}

// requests returns the kind of requests that the kernel's driver takes.
func (d *Driver) requests() ioctl.Family {
	if d.family == OPAE {
		return ioctl.OPAE
	}
	return ioctl.DFL
}

// Name returns the family.
func (d *Driver) Name() string { return string(d.family) }

// reader reads the files of the host.
func (d *Driver) reader() reader { return reader{root: filepath.Clean(d.host.Sysfs), file: d.read} }

// inventory returns what the reader finds.
func (d *Driver) inventory() (Inventory, error) {
	r := d.reader()
	r.family, r.firmware = d.family, &d.firmware
	found, err := read(r, func() {})
	if err == nil {
		d.firmware.forget(d.host.Sysfs, found.Cards)
	}
	return found, err
}

// devNode returns a node as containers see it.
func devNode(n Node) string { return "/dev/" + n.Name }
