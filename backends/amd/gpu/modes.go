package gpu

import (
	"cmp"
	"slices"
)

// maxPartitions is how many partitions a card has at most (amdgpu's MAX_XCP).
const maxPartitions = 8

// Mode is a compute mode of a card.
type Mode struct {
	// Name is the driver's, such as CPX.
	Name string
	// Partitions is how many the card has in this mode.
	Partitions int
}

// Modes returns the compute modes that the card is in or can be switched to, those with few partitions first. CPX
// is left out if the number of compute dies is not known.
func (g GPU) Modes() (all []Mode) {
	for _, name := range append([]string{g.Compute}, g.ComputeModes...) {
		m := Mode{name, splits[name]}
		if name == "CPX" {
			m.Partitions = g.dies()
		}
		if m.Partitions > 0 && m.Partitions <= maxPartitions && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Mode) int {
		return cmp.Or(cmp.Compare(a.Partitions, b.Partitions), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// dies returns the number of compute dies of the card; 0 if it is not known.
func (g GPU) dies() (n int) {
	if n = models[g.PCI.ID].xccs; n > 0 {
		return n
	}
	for _, p := range g.Partitions {
		n += int(p.XCCs)
	}
	return n
}

// Potential returns a partition of the card as it would be in a mode, as far as that is known.
func (g GPU) Potential(m Mode, index int) Partition {
	one := g.Partitions[0]
	part := func(of func(Partition) uint32) (n uint32) {
		for _, p := range g.Partitions {
			n += of(p)
		}
		return n / uint32(m.Partitions)
	}
	return Partition{
		ID: PartitionID(g.ID, m.Name, index), Index: index, GFX: one.GFX, VRAM: g.VRAM / uint64(m.Partitions), Card: one.Card, Render: one.Render,
		Node: one.Node, UniqueID: g.UniqueID,
		ComputeUnits: part(func(p Partition) uint32 { return p.ComputeUnits }),
		SIMDs:        part(func(p Partition) uint32 { return p.SIMDs }),
		XCCs:         part(func(p Partition) uint32 { return p.XCCs }),
	}
}
