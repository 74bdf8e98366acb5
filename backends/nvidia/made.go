package nvidia

import (
	"fmt"
	"slices"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
)

// made has the container edits, and the input that they were made from. An event does not change
// them, and making them again delays a fault by milliseconds.
type made struct {
	cfg *config
	set *edits.Set
	of  []string // identities of the devices
}

// holds reports whether the edits are still valid, as far as the driver reports changes. A
// scan without an event finds all other changes. Incomplete edits are never valid.
func (m made) holds(cfg *config, s driver.Snapshot) bool {
	return m.set != nil && m.cfg == cfg && m.set.Err() == nil && slices.Equal(m.of, identities(s))
}

// problems returns the problems of options that this node cannot provide.
func (m made) problems() []string {
	if m.set == nil {
		return nil
	}
	return slices.Clone(m.set.Problems)
}

// identities returns the identity of each device.
func identities(s driver.Snapshot) []string {
	var all []string
	for _, g := range s.GPUs {
		all = append(all, fmt.Sprint(g.UUID, " ", g.Index, " ", g.PCIBusID, " ", g.Minor, " ", g.MIGEnabled, " ", g.Err != nil))
		for _, i := range g.Instances {
			all = append(all, fmt.Sprint(i.UUID, " ", i.Index, " ", i.GPUInstance, " ", i.ComputeInstance, " ", i.Err != nil))
		}
	}
	return all
}
