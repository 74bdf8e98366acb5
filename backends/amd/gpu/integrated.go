package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/amd/drm"
)

// Integrated is which GPUs that are part of a processor are listed.
type Integrated string

const (
	// IntegratedCompute lists those that can compute, as other GPUs; so does "".
	IntegratedCompute Integrated = "compute"
	// IntegratedAll also lists those for graphics and video only, of which KFD has no node.
	IntegratedAll Integrated = "all"
	// IntegratedNone lists none.
	IntegratedNone Integrated = "none"
)

// Omitted reports whether the GPU is not to be listed. The error is a problem for users: a GPU
// that is left out only because it cannot compute.
func (g GPU) Omitted(which Integrated) (bool, error) {
	switch {
	case !g.Integrated || which == IntegratedAll:
		return false, nil
	case which == IntegratedNone:
		return true, nil
	case g.Computes():
		return false, nil
	}
	return true, fmt.Errorf("the integrated GPU %s is left out, since it cannot compute: KFD has no node of it; "+
		"set integrated to all to list it for graphics and video, or to none if it is not to be used", g.Product)
}

// Computes reports whether KFD has a node of the GPU. Only integrated GPUs without one are in
// an inventory.
func (g GPU) Computes() bool { return len(g.Partitions) > 0 && g.Partitions[0].Computes() }

// Computes reports whether KFD has a node of the partition.
func (p Partition) Computes() bool { return p.Node != noNode }

// noNode is the Node of a partition that cannot compute.
const noNode = -1

// graphics returns a GPU without KFD nodes; false if the card is none that is listed so.
func (j *join) graphics(c *card, class drm.Class) (GPU, bool) {
	if !apus[c.at.ID] || c.compute != "" {
		return GPU{}, false
	}
	at := slices.IndexFunc(class.Devices, func(d drm.Device) bool {
		return d.IsPCI && d.Address == c.at.Address && d.Render != drm.None
	})
	if at < 0 {
		return GPU{}, false
	}
	d := class.Devices[at]
	j.used[d.Render] = true
	g := j.gpuOf(c)
	g.Integrated = true
	g.Partitions = []Partition{{ID: g.ID, VRAM: c.vram, Card: d.Card, Render: d.Render, Node: noNode}}
	return g, true
}

// isIntegrated reports whether a GPU is part of a processor, by its PCI device and its
// instruction set. It is false for a data-centre processor's GPU, such as MI300A.
func isIntegrated(device uint16, gfx string) bool {
	return apus[device] || slices.ContainsFunc([]string{"gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx115"},
		func(prefix string) bool { return strings.HasPrefix(gfx, prefix) })
}

// apus are PCI devices of integrated GPUs: those with AMD_IS_APU in the driver's table
// (drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c), and later ones of the PCI ID list.
var apus = map[uint16]bool{
	0x9870: true, 0x9874: true, 0x9875: true, 0x9876: true, 0x9877: true, // Carrizo
	0x98e4: true,               // Stoney
	0x15dd: true, 0x15d8: true, // Raven, Picasso
	0x1636: true, 0x1638: true, 0x164c: true, 0x15e7: true, // Renoir, Cezanne, Lucienne, Barcelo
	0x163f: true,               // Van Gogh
	0x164d: true, 0x1681: true, // Rembrandt
	0x164e: true, 0x1506: true, // Raphael, Mendocino
	0x15bf: true, 0x15c8: true, 0x1900: true, 0x1901: true, // Phoenix, Hawk Point
	0x150e: true, 0x1586: true, 0x1114: true, 0x13c0: true, // Strix, Strix Halo, Krackan, Granite Ridge
}
