package inventory

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// CounterSet has amounts of which devices consume parts, as in resource.k8s.io/v1. It never
// changes.
type CounterSet struct {
	Name     string
	Counters ByName[int64]
}

// Consumption is what a device consumes of one counter set.
type Consumption struct {
	Set      string
	Counters ByName[int64]
}

// counterSets returns the valid sets of an inventory, sorted by name. The others are left out,
// with a problem.
func counterSets(wire []*backendv1.CounterSet, problems *problems) []CounterSet {
	var sets []CounterSet
	for i, w := range wire {
		err := checkCounters(w.GetCounters(), maxCounters, 0)
		switch {
		case i == maxSets:
			problems.add("", "counter sets beyond the first %d are left out", maxSets)
			return sortSets(sets)
		case len(validation.IsDNS1123Label(w.GetName())) > 0:
			err = fmt.Errorf("its name must be a DNS label")
		case slices.ContainsFunc(sets, func(s CounterSet) bool { return s.Name == w.GetName() }):
			err = fmt.Errorf("there is another one with this name")
		}
		if err != nil {
			problems.add("", "counter set %s is left out, and so are the devices that consume of it: %s", quote(w.GetName()), err)
			continue
		}
		sets = append(sets, CounterSet{w.GetName(), Named(w.GetCounters())})
	}
	return sortSets(sets)
}

func sortSets(sets []CounterSet) []CounterSet {
	slices.SortFunc(sets, func(a, b CounterSet) int { return strings.Compare(a.Name, b.Name) })
	return sets
}

func checkCounters(counters map[string]int64, most int, least int64) error {
	if n := len(counters); n == 0 || n > most {
		return fmt.Errorf("it has %d counters; 1 to %d are possible", n, most)
	}
	for _, name := range sortedKeys(counters) {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("the name of its counter %s must be a DNS label", quote(name))
		}
		if counters[name] < least {
			return fmt.Errorf("its counter %s is %d; at least %d is possible", name, counters[name], least)
		}
	}
	return nil
}

// consumptions checks what a device consumes, except whether the sets have that much.
func consumptions(wire []*backendv1.CounterConsumption) ([]Consumption, error) {
	if len(wire) > maxConsumptions {
		return nil, fmt.Errorf("it consumes of %d counter sets; at most %d are possible", len(wire), maxConsumptions)
	}
	var all []Consumption
	for _, w := range wire {
		if slices.ContainsFunc(all, func(c Consumption) bool { return c.Set == w.GetCounterSet() }) {
			return nil, fmt.Errorf("it consumes of counter set %s twice; give both in one entry", quote(w.GetCounterSet()))
		}
		if err := checkCounters(w.GetCounters(), maxCounters, 1); err != nil {
			return nil, fmt.Errorf("what it consumes of counter set %s is invalid: %w", quote(w.GetCounterSet()), err)
		}
		all = append(all, Consumption{w.GetCounterSet(), Named(w.GetCounters())})
	}
	return all, nil
}

// budget has the remaining amounts of the counter sets, by set and counter.
type budget map[string]map[string]int64

func newBudget(sets []CounterSet) budget {
	left := budget{}
	for _, s := range sets {
		left[s.Name] = s.Counters.Map()
	}
	return left
}

// consume subtracts what a device consumes. A potential device consumes nothing yet, but must
// fit into the whole sets.
func (b budget) consume(d *Device, whole budget) error {
	of := b
	if d.Potential {
		of = whole
	}
	for _, c := range d.Consumes {
		for name, amount := range c.Counters.All() {
			left, ok := of[c.Set][name]
			switch {
			case !ok:
				return fmt.Errorf("it consumes of counter %s of set %s, which does not exist", name, quote(c.Set))
			case amount > left:
				return fmt.Errorf("it consumes %d of counter %s of set %s, of which %d are left: existing devices must fit into their counter sets together",
					amount, name, quote(c.Set), left)
			}
		}
	}
	if d.Potential {
		return nil
	}
	for _, c := range d.Consumes {
		for name, amount := range c.Counters.All() {
			b[c.Set][name] -= amount
		}
	}
	return nil
}
