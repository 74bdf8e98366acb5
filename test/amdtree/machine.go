package amdtree

import (
	"fmt"

	"github.com/accelmux/accelmux/backends/pci"
)

// Machine is what a tree is made of.
type Machine struct {
	// DriverVersion is what /sys/module/amdgpu/version says; a kernel's own driver
	// has no such file, which is what empty means.
	DriverVersion string
	// DriverSource is what /sys/module/amdgpu/srcversion says; there is no such file if it is
	// empty.
	DriverSource string
	// OldKernel leaves out what kernels before 5.13 or so do not have: the KFD
	// properties domain, gfx_target_version, hive_id, num_xcc, and partition modes.
	OldKernel bool
	// NoUniqueID leaves out unique_id, in KFD and of the card.
	NoUniqueID bool
	// XCDIdentity has KFD say an ID of its own for each partition as unique_id, as
	// kernels from 6.16 on do; the card's file says that of the GPU.
	XCDIdentity bool
	// HighIndex has KFD put the number of a partition into location_id's bits 31 to
	// 28, as newer kernels do, instead of 2 to 0.
	HighIndex bool
	// Dotted names the platform devices of partitions amdgpu_xcp.N, not amdgpu_xcp_N.
	Dotted bool
	// Cards is how many card minors others have, such as a BMC: card0 and so on.
	Cards int
	// Renders are render minors that others have.
	Renders []int
	// Sockets is the number of CPU nodes; 0 means 1.
	Sockets int
	GPUs    []GPU

	// captured is a KFD topology directory that is shown as it is until the machine
	// is changed.
	captured *capture
}

// GPU is one card.
type GPU struct {
	Model   Model
	Address pci.Address
	// UniqueID is the serial number of the silicon.
	UniqueID uint64
	// Hive is the XGMI hive; 0 for none.
	Hive uint64
	// Socket is the CPU node that the card is close to.
	Socket int
	// NoNUMA has the card say -1 for its NUMA node.
	NoNUMA bool
	// Compute and Memory are the partition modes, such as CPX and NPS4; empty for a
	// card that has none, SPX and NPS1 if the model has modes.
	Compute, Memory string
	// ProductName is in product_name, which cards with a FRU chip have; there is no
	// such file if it is empty.
	ProductName string
}

// Model is a kind of card.
type Model struct {
	Device   uint16
	Revision uint8
	Class    uint32
	// GFX is gfx_target_version: 90402 is gfx942.
	GFX uint64
	// SIMDs are those of all XCCs.
	SIMDs, SIMDsPerCU, XCCs int
	// VRAM is in bytes.
	VRAM uint64
	// Compute and Memory are the modes it has; none for a card without partitions.
	Compute, Memory []string
	// XGMIWeight and XGMIBandwidth (MB/s) are those of links in the hive.
	XGMIWeight, XGMIBandwidth int
	// PCIBandwidth (MB/s) is that of the link to the CPU.
	PCIBandwidth int
	// Firmware are versions by the names of the driver's files, without _fw_version.
	Firmware map[string]uint32
	// NoKFD is a GPU that KFD does not support.
	NoKFD bool
}

// maxXCP is how many partitions the driver makes DRM devices for: seven platform
// devices for each card that has modes, beside the card's own
// (drivers/gpu/drm/amd/amdgpu/amdgpu_xcp.h).
const maxXCP = 8

// partitions is how many there are in a compute mode.
func (m Model) partitions(compute string) (int, error) {
	n := map[string]int{"": 1, "SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": m.XCCs}[compute]
	if n == 0 || m.XCCs%n != 0 {
		return 0, fmt.Errorf("device %#04x with %d XCCs has no mode %q", m.Device, m.XCCs, compute)
	}
	return n, nil
}

// Models of the captures. SIMDs, versions and weights are the captures'; class,
// revision and modes are what the driver says of these cards.
var (
	Vega10 = Model{
		Device: 0x6860, Revision: 0x01, Class: 0x030000, GFX: 90000, SIMDs: 256, SIMDsPerCU: 4, XCCs: 1,
		VRAM: 17163091968,
	}
	MI210 = Model{
		Device: 0x740f, Revision: 0x02, Class: 0x038000, GFX: 90010, SIMDs: 416, SIMDsPerCU: 4, XCCs: 1,
		VRAM: 64 << 30, XGMIWeight: 15, XGMIBandwidth: 50000, PCIBandwidth: 32000,
	}
	// Raphael is an integrated GPU. Raven is one that KFD does not support, as on kernels
	// before 6.5 without an IOMMU.
	Raphael = Model{Device: 0x164e, Revision: 0xc1, Class: 0x030000, GFX: 100306, SIMDs: 4, SIMDsPerCU: 2, XCCs: 1, VRAM: 512 << 20}
	Raven   = Model{Device: 0x15dd, Revision: 0xc6, Class: 0x030000, GFX: 90002, SIMDs: 32, SIMDsPerCU: 4, XCCs: 1, VRAM: 256 << 20, NoKFD: true}
	MI300X  = Model{
		Device: 0x74a1, Class: 0x120000, GFX: 90402, SIMDs: 1216, SIMDsPerCU: 4, XCCs: 8,
		VRAM: 192 << 30, XGMIWeight: 41, PCIBandwidth: 64000,
		Compute: []string{"SPX", "DPX", "QPX", "CPX"}, Memory: []string{"NPS1", "NPS2", "NPS4"},
	}
)

// NewVega10 is a machine with one Vega10 and an old kernel.
func NewVega10() Machine {
	return Machine{OldKernel: true, GPUs: []GPU{{
		Model: Vega10, Address: pci.Address{Bus: 0x19}, UniqueID: 0xc34f1a2b3c4d5e0c,
	}}}
}

// NewMI210 is a machine with eight MI210 in two hives on two sockets, at the
// addresses of the capture.
func NewMI210() Machine {
	m := Machine{DriverVersion: "6.8.5", Cards: 1, Sockets: 2}
	for i, bus := range []uint8{0x63, 0x43, 0x03, 0x26, 0xe3, 0xc3, 0x83, 0xa3} {
		m.GPUs = append(m.GPUs, GPU{
			Model: MI210, Address: pci.Address{Bus: bus}, UniqueID: unique(MI210, i),
			Hive: 0xaf00000000000077 + uint64(i/4), Socket: i / 4, ProductName: "AMD Instinct MI210",
		})
	}
	return m
}

// NewMI300X is a machine with eight MI300X in one hive on two sockets, all in the
// modes. In CPX it has 63 partitions, as the capture has: a BMC holds card0, so that
// the last of the 64 card minors that DRM gives is not to be had.
func NewMI300X(compute, memory string) Machine {
	m := Machine{DriverVersion: "6.12.12", Cards: 1, Sockets: 2}
	for i, bus := range []uint8{0x05, 0x27, 0x47, 0x65, 0x85, 0xa7, 0xc7, 0xe5} {
		m.GPUs = append(m.GPUs, GPU{
			Model: MI300X, Address: pci.Address{Bus: bus}, UniqueID: unique(MI300X, i),
			Hive: 0xd2c9000000000077, Socket: i / 4, Compute: compute, Memory: memory,
			ProductName: "AMD Instinct MI300X OAM",
		})
	}
	return m
}

// NewMixed is a machine with GPUs of several kinds and modes in several PCI domains,
// with render minors that others have in between.
func NewMixed() Machine {
	return Machine{
		DriverVersion: "6.12.12", Cards: 2, Renders: []int{128, 131}, Sockets: 2,
		GPUs: []GPU{
			{Model: MI300X, Address: pci.Address{Bus: 0x05}, UniqueID: 0xf000000000000001, Hive: 7, Compute: "CPX", Memory: "NPS4"},
			{Model: MI300X, Address: pci.Address{Bus: 0x27}, UniqueID: 0x2250f0000000001a, Hive: 7, Compute: "SPX", Memory: "NPS1"},
			{Model: MI300X, Address: pci.Address{Domain: 1, Bus: 0x05}, UniqueID: 0x8001, Hive: 7, Socket: 1, Compute: "DPX", Memory: "NPS1"},
			{Model: MI210, Address: pci.Address{Domain: 0x10000, Bus: 0xe1}, UniqueID: 0x19c3, Socket: 1, NoNUMA: true},
			{Model: MI300X, Address: pci.Address{Domain: 1, Bus: 0x27}, UniqueID: 0x8002, Hive: 7, Socket: 1, Compute: "QPX", Memory: "NPS1"},
		},
	}
}

// unique is a serial number: large, so that it does not fit into 63 bits for some,
// and not in the order of addresses.
func unique(m Model, i int) uint64 {
	return (uint64(m.Device)<<32 + uint64(i) + 1) * 0x9e3779b97f4a7c15
}
