package pool

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/inventory"
)

// The scheduler subtracts from a counter set what the devices of claims consume. A device that
// exists without a claim consumes, too, and the API cannot express that. So it is published
// without its consumption, and the set without what it consumes:
//
//	device                        consumes in its slice   subtracted from the set
//	potential, or made for a claim         yes                     no
//	exists without Prepare                  no                    yes
//	made, but not published                 no                    yes

// consumption returns what a device consumes in its slice.
func (b *builder) consumption(d *inventory.Device) (all []resourceapi.DeviceCounterConsumption) {
	if !b.Counters || !d.IsOnDemand() {
		return nil
	}
	for _, c := range d.Consumes {
		all = append(all, resourceapi.DeviceCounterConsumption{CounterSet: c.Set, Counters: amounts(c.Counters.Map())})
	}
	b.consuming[d.Key] = true
	return all
}

// counterSets returns the counter sets of which a published device consumes, each with what is left
// for these. The devices must have been published before.
func (b *builder) counterSets() (all []resourceapi.CounterSet) {
	if len(b.consuming) == 0 {
		return nil
	}
	used, left := map[string]bool{}, map[string]map[string]int64{}
	for _, s := range b.Backend.CounterSets {
		left[s.Name] = s.Counters.Map()
	}
	for _, d := range b.Backend.Devices {
		for _, c := range d.Consumes {
			used[c.Set] = used[c.Set] || b.consuming[d.Key]
			if d.Potential || b.consuming[d.Key] {
				continue
			}
			for name, amount := range c.Counters.All() { // existing devices fit into their sets, see package inventory
				left[c.Set][name] -= amount
			}
		}
	}
	for _, s := range b.Backend.CounterSets {
		if used[s.Name] {
			all = append(all, resourceapi.CounterSet{Name: s.Name, Counters: amounts(left[s.Name])})
		}
	}
	return all
}

func amounts(counters map[string]int64) map[string]resourceapi.Counter {
	all := make(map[string]resourceapi.Counter, len(counters))
	for name, amount := range counters {
		all[name] = resourceapi.Counter{Value: *number(amount)}
	}
	return all
}
