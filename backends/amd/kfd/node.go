package kfd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// Node is one node of the topology: a socket, a GPU, or a partition of one.
type Node struct {
	// Number is the node's name in the topology. It changes whenever devices come and
	// go.
	Number int
	// ID is the driver's number for a GPU (gpu_id) in its events and calls; 0 for a CPU.
	ID uint32
	// CPUCores is 0 for a GPU, SIMDs for a CPU.
	CPUCores, SIMDs, SIMDsPerCU uint32
	// XCCs are the compute dies; 0 on kernels that do not report them.
	XCCs uint32
	// GFXVersion is gfx_target_version: major*10000 + minor*100 + stepping; 0 on kernels
	// before 5.13.
	GFXVersion uint32
	// Vendor and Device are the PCI IDs.
	Vendor, Device uint32
	// Location is the PCI bus (bits 15 to 8), device (7 to 3) and function (2 to 0). With
	// partitions the driver adds the partition's number: to the bits of the function,
	// or in other versions in bits 31 to 28.
	Location uint32
	// Domain is the PCI domain if HasDomain; old kernels do not report it.
	Domain    uint32
	HasDomain bool
	// RenderMinor is N of /dev/dri/renderDN; 0 for a CPU, and for a GPU without one.
	RenderMinor uint32
	// Hive is the XGMI hive; 0 for none.
	Hive uint64
	// UniqueID is 0 on kernels and GPUs without one. It is that of the whole GPU, but kernels
	// from 6.16 on may report that of a compute die for a partition.
	UniqueID uint64
	// VRAM is the size in bytes of the node's memory on the GPU; 0 if the driver does not
	// report it.
	VRAM uint64
	// Links are those that start here.
	Links []Link
}

// IsGPU reports whether the node is a GPU or a partition.
func (n Node) IsGPU() bool { return n.SIMDs > 0 }

// ComputeUnits returns the number of compute units; 0 for a CPU.
func (n Node) ComputeUnits() uint32 {
	if n.SIMDsPerCU == 0 {
		return 0
	}
	return n.SIMDs / n.SIMDsPerCU
}

// GFX returns the version of the instruction set as compilers write it, such as gfx90a;
// empty if the driver does not report it.
func (n Node) GFX() string {
	if n.GFXVersion == 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", n.GFXVersion/10000, n.GFXVersion/100%100, n.GFXVersion%100)
}

// The heaps of a mem_bank that are memory of the GPU
// (drivers/gpu/drm/amd/amdkfd/kfd_topology.h): what the host sees, and what it does
// not.
const (
	heapPublic  = 1
	heapPrivate = 2
)

const (
	// maxBanks and maxLinks are far above what a node has.
	maxBanks = 64
	maxLinks = 2 * maxNodes
	// maxSIMDs and maxMinor are bounds above which a number is invalid: DRM has 20 bits for a
	// minor.
	maxSIMDs = 1 << 20
	maxMinor = 1<<20 - 1
)

// readNode reads a node. Links that cannot be read are problems, not errors.
func readNode(dir string, number int) (Node, []Problem, error) {
	n := Node{Number: number}
	text, err := sysfs.Read(filepath.Join(dir, "properties"), sysfs.Limit)
	if err != nil {
		return Node{}, nil, err
	}
	if err := n.parse(text); err != nil {
		return Node{}, nil, fmt.Errorf("%s: %w", filepath.Join(dir, "properties"), err)
	}
	if !n.IsGPU() {
		return n, nil, nil
	}
	if n.ID, err = readID(filepath.Join(dir, "gpu_id")); err != nil {
		return Node{}, nil, err
	}
	if err := n.readBanks(filepath.Join(dir, "mem_banks")); err != nil {
		return Node{}, nil, err
	}
	var problems []Problem
	for _, kind := range []string{"io_links", "p2p_links"} {
		problems = append(problems, n.readLinks(filepath.Join(dir, kind), kind == "p2p_links")...)
	}
	return n, problems, nil
}

// readID returns gpu_id; 0 if there is none, as in some captures.
func readID(file string) (uint32, error) {
	text, err := sysfs.Read(file, sysfs.Limit)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	digits, whole := bytes.CutSuffix(text, []byte{'\n'})
	if !whole {
		return 0, fmt.Errorf("%s: it ends within a line", file)
	}
	id, err := decimal(digits)
	if err == nil && id > math.MaxUint32 {
		err = fmt.Errorf("%d has more than 32 bits", id)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return uint32(id), nil
}

// parse takes over the properties file.
func (n *Node) parse(text []byte) error {
	p := properties{values: map[string]uint64{}}
	// The driver writes max_engine_clk_ccompute last: a file without it is cut off.
	if err := p.parse(text, "cpu_cores_count", "simd_count", "max_engine_clk_ccompute"); err != nil {
		return err
	}
	n.CPUCores, n.SIMDs = p.number("cpu_cores_count", math.MaxUint32), p.number("simd_count", maxSIMDs)
	if n.SIMDs == 0 {
		return p.err
	}
	p.need("simd_per_cu", "vendor_id", "device_id", "location_id", "drm_render_minor")
	n.SIMDsPerCU = p.number("simd_per_cu", maxSIMDs)
	n.XCCs = p.number("num_xcc", 1024)
	n.GFXVersion = p.number("gfx_target_version", 1_000_000)
	n.Vendor, n.Device = p.number("vendor_id", math.MaxUint16), p.number("device_id", math.MaxUint16)
	n.Location, n.Domain = p.number("location_id", math.MaxUint32), p.number("domain", math.MaxUint32)
	_, n.HasDomain = p.values["domain"]
	n.RenderMinor = p.number("drm_render_minor", maxMinor)
	n.Hive, n.UniqueID = p.values["hive_id"], p.values["unique_id"]
	if p.err == nil && (n.SIMDsPerCU == 0 || n.SIMDs%n.SIMDsPerCU != 0) {
		return fmt.Errorf("%d SIMDs are not whole compute units of %d", n.SIMDs, n.SIMDsPerCU)
	}
	return p.err
}

// readBanks adds up the GPU's memory. Some captures have no mem_banks; their size
// is unknown.
func (n *Node) readBanks(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > maxBanks {
		return fmt.Errorf("%s has %d memory banks, more than the %d that can be", dir, len(entries), maxBanks)
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name(), "properties")
		text, err := sysfs.Read(file, sysfs.Limit)
		if err != nil {
			return err
		}
		p := properties{values: map[string]uint64{}}
		if err := p.parse(text, "heap_type", "size_in_bytes", "mem_clk_max"); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if heap := p.values["heap_type"]; heap != heapPublic && heap != heapPrivate {
			continue
		}
		sum, carry := bits.Add64(n.VRAM, p.values["size_in_bytes"], 0)
		if carry != 0 || sum > 1<<60 {
			return fmt.Errorf("%s: size_in_bytes %d is more than can be", file, p.values["size_in_bytes"])
		}
		n.VRAM = sum
	}
	return nil
}
