package amd

import (
	"math"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/kfd"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// place is where a partition is.
type place struct {
	gpu string // the ID of the GPU
	at  pci.Device
}

// placesOf returns the places of all partitions, by ID.
func placesOf(inventory gpu.Inventory) map[string]place {
	all := map[string]place{}
	for _, g := range inventory.GPUs {
		for _, p := range g.Partitions {
			all[p.ID] = place{gpu: g.ID, at: g.PCI}
		}
	}
	return all
}

// linksOf returns the links that the kernel has of a partition, with its weights. A missing
// link counts as far.
func linksOf(p gpu.Partition, places map[string]place) []*sdk.Link {
	var all []*sdk.Link
	from := places[p.ID]
	for _, link := range p.Links {
		if to, ok := places[link.To]; ok {
			all = append(all, &sdk.Link{PeerId: link.To, Kind: kindOf(link.Kind, from, to), Distance: min(link.Weight, math.MaxInt32)})
		}
	}
	return all
}

func kindOf(kind kfd.LinkKind, from, to place) backendv1.LinkKind {
	switch {
	case from.gpu == to.gpu:
		return backendv1.LinkKind_LINK_KIND_SAME_DEVICE
	case kind == kfd.XGMI:
		return backendv1.LinkKind_LINK_KIND_XGMI
	case kind == kfd.PCIe:
		return from.at.LinkTo(to.at)
	}
	return backendv1.LinkKind_LINK_KIND_OTHER
}
