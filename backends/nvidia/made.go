package nvidia

import (
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
)

// made is what containers get with the devices, and what it was made from. Making
// it takes longer than a look at the GPUs, and an event does not change it.
type made struct {
	cfg *config
	set *edits.Set
	of  []string // identities
}

// holds reports whether it would be the same if it was made now, as far as the
// driver knows; a look without an event finds what else has changed. As long as
// something is missing it never holds.
func (m made) holds(cfg *config, s driver.Snapshot) bool {
	return m.set != nil && m.cfg == cfg && m.set.Err() == nil && slices.Equal(m.of, identities(s))
}

// problems are what an operator must know of it.
func (m made) problems() []string {
	if m.set == nil {
		return nil
	}
	return slices.Clone(m.set.Problems)
}

// identities are those of all devices.
func identities(s driver.Snapshot) []string {
	var all []string
	for _, g := range s.GPUs {
		all = append(all, fmt.Sprint(g.UUID, " ", g.PCIBusID, " ", g.Minor, " ", g.MIGEnabled, " ", g.Err != nil))
		for _, i := range g.Instances {
			all = append(all, fmt.Sprint(i.UUID, " ", i.GPUInstance, " ", i.ComputeInstance, " ", i.Err != nil))
		}
	}
	return all
}
