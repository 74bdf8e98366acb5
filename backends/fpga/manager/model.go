package manager

import (
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// found is a manager with its regions.
type found struct {
	member
	card  driver.Card
	state driver.State
	place place
	// function is the PCI function that it is in, nil for none.
	function *pci.Address
	// handle is the manager's number in the device tree; 0 for none.
	handle uint32
	// files: the kernel has files to program it by.
	files   bool
	regions []*part
}

// part is a region of a manager.
type part struct {
	member
	node  string
	place place
	// outer: other regions are in it; inner: it is in another.
	outer, inner bool
}

// member is a device of a class.
type member struct {
	class, name string
	// dir is its directory, without links; device is that of its parent device.
	dir, device string
	err         error
}
