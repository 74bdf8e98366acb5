package gpu

import (
	"github.com/accelmux/accelmux/backends/amd/kfd"
	"github.com/accelmux/accelmux/backends/pci"
)

// Inventory is what was found.
type Inventory struct {
	// Generation is that of KFD's topology, 0 if there is none. When [kfd.Generation] returns
	// another, the inventory is out of date.
	Generation uint64
	// DriverVersion is that of a driver which is not the kernel's own; else empty.
	DriverVersion string
	// DriverSource is the checksum of the driver's source, srcversion; empty if the driver is
	// part of the kernel's image.
	DriverSource string
	// GPUs are by PCI address.
	GPUs []GPU
	// Problems are what is left out or inconsistent.
	Problems []Problem
	// Unstable: the machine changed during each attempt to read it, so the inventory may be
	// half old and half new. See also [kfd.Topology] on what a generation does not show.
	Unstable bool
}

// Problem is something wrong with a device.
type Problem struct {
	// Device is a PCI address such as "0000:63:00.0", a KFD node such as "KFD node 12",
	// or a DRM minor such as "renderD131".
	Device string
	// Lost: something is left out because of it.
	Lost bool
	// Err names the file, if there is one, and what is wrong.
	Err error
}

// GPU is a card.
type GPU struct {
	// ID stays the same whatever the order in which GPUs are found; see [ID].
	ID string
	// PCI is what the bus reports: address, IDs, NUMA node, bridges above.
	PCI pci.Device
	// UniqueID is the serial number of the silicon; 0 if the kernel reports none.
	UniqueID uint64
	// Hive is the XGMI hive; 0 for none.
	Hive uint64
	// Compute and Memory are the partition modes, such as CPX and NPS4; empty for a
	// card that has none. Memory can be unknown, and empty, for a card that has.
	Compute, Memory string
	// ComputeModes and MemoryModes are those that the card can be switched to.
	ComputeModes, MemoryModes []string
	// Product is the name that the card or a list of names has for it.
	Product string
	// Family is the architecture, such as CDNA3; empty if it is not known.
	Family string
	// VRAM is in bytes; 0 if it is not known.
	VRAM uint64
	// Integrated: it is part of a processor.
	Integrated bool
	// Firmware are the versions of firmware that the driver reports, by the names of its files
	// without _fw_version, such as mec.
	Firmware map[string]uint32
	// Partitions are by index, and never empty: a card that is not partitioned has one,
	// with the card's ID.
	Partitions []Partition
}

// Partitioned reports whether the GPU is in a mode that splits it.
func (g GPU) Partitioned() bool { return g.Compute != "" && g.Compute != whole }

// Partition is what a container can be given.
type Partition struct {
	ID string
	// Index is the partition's number in its card.
	Index int
	// ComputeUnits and SIMDs are those of the partition; XCCs its compute dies, 0 if the
	// kernel reports none.
	ComputeUnits, SIMDs, XCCs uint32
	// GFX is the instruction set, such as gfx942; empty if it is not known.
	GFX string
	// VRAM is in bytes; 0 if it is not known.
	VRAM uint64
	// Card is N of /dev/dri/cardN, or drm.None; Render is N of /dev/dri/renderDN.
	Card, Render int
	// Node is the number of the KFD node, -1 if there is none, and KFDID the number by which KFD's events
	// name it. Both change over a reload of the driver.
	Node  int
	KFDID uint32
	// UniqueID is the unique_id of the KFD node; 0 if KFD reports none. It is the card's, or
	// from kernel 6.16 on that of a compute die.
	UniqueID uint64
	// Links lead to other partitions of the inventory, by ID. A missing link means that the
	// kernel reports no connection, not that the two are close.
	Links []Link
}

// Link is the shortest connection to another partition that KFD has.
type Link struct {
	// To is the ID of the partition.
	To   string
	Kind kfd.LinkKind
	// Weight is the kernel's distance: lower is closer.
	Weight uint32
}
