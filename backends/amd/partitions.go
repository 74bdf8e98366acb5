package amd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// With the strategy dynamic a GPU is listed as the partitions of all its compute modes. A mode is the whole GPU's, so
// partitions of two modes exclude each other:
//
//	                                      listed as
//	a partition that Prepare has given    existing, made for its holder
//	its siblings, of the same mode        existing
//	all others, and all of a free GPU     potential
//
// The mode that a free GPU has by chance means nothing: its partitions are potential like those of other modes.

// onDemand is a partition of the strategy dynamic.
type onDemand struct {
	modes []gpu.Mode
	mode  gpu.Mode
	// current: the GPU is in this mode.
	current bool
	// held: it is, and a holder has a partition of the GPU.
	held bool
}

// demandable reports whether partitions of a GPU are made for claims. A GPU with one mode has nothing to switch.
func (s *source) demandable(g gpu.GPU) bool { return s.cfg.strategy == dynamic && len(g.Modes()) > 1 }

// partitions returns the partitions of all modes of a GPU.
func (s *source) partitions(g gpu.GPU, places map[string]place, problems []gpu.Problem) (all []engine.Device) {
	modes, held := g.Modes(), false
	for _, p := range g.Partitions {
		held = held || s.cfg.made.Holder(p.ID) != ""
	}
	for _, m := range modes {
		for i := range m.Partitions {
			p := part{Partition: g.Potential(m, i), onDemand: &onDemand{modes: modes, mode: m, current: m.Name == g.Compute}}
			if p.current {
				at := slices.IndexFunc(g.Partitions, func(existing gpu.Partition) bool { return existing.Index == i })
				if p.held = held && at >= 0; at < 0 {
					p.missing = reasonOf(problems)
				} else if p.Partition = g.Partitions[at]; held {
					p.links = linksOf(p.Partition, places)
				}
			}
			d := s.device(g, p)
			d.Number = len(all)
			all = append(all, d)
		}
	}
	return all
}

// holdersOn returns the holders of the partitions of a GPU by their IDs, in whatever mode these are.
func (c *config) holdersOn(g gpu.GPU) map[string]string {
	of := map[string]string{}
	for _, m := range g.Modes() {
		for i := range m.Partitions {
			id := gpu.PartitionID(g.ID, m.Name, i)
			if holder := c.made.Holder(id); holder != "" {
				of[id] = holder
			}
		}
	}
	return of
}

// forget removes from the record partitions that a new GPU does not have: the process ended before it switched the
// mode, or the node was rebooted.
func (s *source) forget(g gpu.GPU, known []engine.Unit) error {
	if slices.ContainsFunc(known, func(u engine.Unit) bool { return u.ID == g.ID }) {
		return nil
	}
	var gone []string
	for id := range s.cfg.holdersOn(g) {
		if !slices.ContainsFunc(g.Partitions, func(p gpu.Partition) bool { return p.ID == id }) {
			gone = append(gone, id)
		}
	}
	if err := s.cfg.made.Remove(gone...); err != nil {
		return fmt.Errorf("partitions that are gone stay in the record: %w", err)
	}
	return nil
}

// describe adds to a device what makes it one that is made for a claim.
func (v vendor) describe(device *sdk.Device, g card, p part) {
	// What AMD's DRA driver publishes only of partitions that it makes.
	device.Attributes["gpuIndex"], device.Attributes["pciAddr"] = sdk.Int(int64(g.index)), sdk.String(g.PCI.Address.String())
	device.Capacities["partitions"] = 1
	device.Hooks = []backendv1.Hook{sdk.HookPrepare, sdk.HookRelease}
	device.SlowToPrepare = !p.current // a switch may take as long as madeLimit
	device.Consumes = []*backendv1.CounterConsumption{{CounterSet: setOf(g.GPU), Counters: map[string]int64{}}}
	for _, name := range cells(p.modes, p.mode, p.Index) {
		device.Consumes[0].Counters[name] = 1
	}
	if device.Potential = !p.held; p.held {
		device.MadeFor = v.cfg.made.Holder(p.ID)
	}
}

// setOf returns the name of a GPU's counter set.
func setOf(g gpu.GPU) string { return strings.ToLower(g.ID) }

// CounterSets implements [engine.Divider].
func (vendor) CounterSets(units []*engine.KnownUnit) (sets []*sdk.CounterSet) {
	for _, u := range units {
		if len(u.Unit.Devices) == 0 || partIn(u.Unit.Devices[0]).onDemand == nil {
			continue
		}
		counters, p := map[string]int64{}, partIn(u.Unit.Devices[0])
		for i := range p.mode.Partitions {
			for _, name := range cells(p.modes, p.mode, i) {
				counters[name] = 1
			}
		}
		sets = append(sets, &sdk.CounterSet{Name: setOf(cardIn(u.Unit).GPU), Counters: counters})
	}
	return sets
}

// cells returns the counters that a partition consumes, each of which is there once. They are the cells of a table with
// a column for each partition of the finest mode and a row for each of the second finest; a partition of these has its
// column or row. One of another mode has every n-th diagonal. So each mode divides the whole table among its
// partitions, and two partitions of different modes always have a cell in common. Modes are those of the GPU, with
// few partitions first. 4 times 8 cells are the most, which is what the API allows in a set.
func cells(modes []gpu.Mode, of gpu.Mode, index int) (all []string) {
	last := len(modes) - 1
	finest, second := modes[last], modes[max(last-1, 0)]
	for row := range second.Partitions {
		for column := range finest.Partitions {
			at := (row + column) % of.Partitions
			switch of {
			case finest:
				at = column
			case second:
				at = row
			}
			if at == index {
				all = append(all, fmt.Sprintf("cell-%d-%d", row, column))
			}
		}
	}
	return all
}
