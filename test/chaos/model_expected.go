package main

import (
	"fmt"
	"slices"
	"strings"
)

// health is what kubelet may be told of a unit; each bit is one possibility.
type health uint8

const (
	healthy health = 1 << iota
	unhealthy
	absent
)

func (h health) String() string {
	var words []string
	for i, word := range []string{"healthy", "unhealthy", "absent"} {
		if h&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, " or ")
}

// expected is what kubelet has to be told once the node is at rest: of each resource
// of the configuration each unit that it may be told of at all.
func (m *model) expected(holds []hold) map[string]map[string]health {
	all := map[string]map[string]health{}
	for _, b := range m.configured() {
		resource, replicas := m.resourceOf(b)
		units := map[string]health{}
		for _, d := range b.devices {
			h := m.deviceHealth(b, d, holds)
			for _, unit := range unitsOf(d.id, replicas) {
				units[unit] = m.unitHealth(h, resource, unit, holds)
				if b == m.iota && m.claimed() {
					units[unit] = absent
				}
			}
		}
		all[resource] = units
	}
	return all
}

func unitsOf(id string, replicas int) []string {
	if replicas == 1 {
		return []string{id}
	}
	units := make([]string, replicas)
	for i := range units {
		units[i] = fmt.Sprintf("%s::%d", id, i)
	}
	return units
}

func (m *model) deviceHealth(b *backend, d *device, holds []hold) health {
	faulty, certain := m.faulty(b, d, holds)
	switch {
	case b.down() && b.holdover:
		return healthy | unhealthy | absent
	case b.down():
		return unhealthy | absent
	case !m.present(b, d):
		return absent
	case m.foreign == d.id:
		return unhealthy | absent
	case (m.diskFull || m.readOnly) && b != m.gamma:
		if faulty {
			return unhealthy | absent
		}
		return healthy | unhealthy | absent // defined before, or not
	case !certain:
		return healthy | unhealthy
	case b.mayMiss(d):
		return unhealthy | absent
	case faulty:
		return unhealthy
	case m.resetting(b, d):
		return healthy | unhealthy
	}
	return healthy
}

// resetting reports whether another device of the group needs a reset: while one is under
// way or waits for containers, the device is given to nobody.
func (m *model) resetting(b *backend, d *device) bool {
	return slices.ContainsFunc(b.devices, func(other *device) bool {
		return other != d && other.group == d.group && (other.entry.fault == byReset || other.faults[byReset])
	})
}

// unitHealth is that of one unit: what its device is, unless holds speak against it.
func (m *model) unitHealth(h health, resource, unit string, holds []hold) health {
	id, replica := deviceOf(unit)
	for _, hold := range holders(holds, id) {
		if _, other := deviceOf(hold.Unit); (hold.Resource != resource || other != replica) && (!other || !replica) {
			return h&^healthy | unhealthy
		}
	}
	if h&absent != 0 && len(holders(holds, id)) > 0 {
		h |= unhealthy // a device that vanished stays visible while it is held
	}
	return h
}
