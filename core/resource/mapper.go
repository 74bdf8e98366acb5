package resource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verdicts says what is thought of a device's health; a health.View is one.
type Verdicts interface {
	Verdict(k inventory.Key) health.Verdict
}

// Mapper maps devices to the resources of one profile. It is safe for
// concurrent use.
type Mapper struct {
	rules []rule

	mu sync.Mutex
	// cache remembers what the rules made of the devices of the latest snapshot,
	// by backend. Devices never change and snapshots share them, so a device that
	// is still the same pointer need not be evaluated again.
	cache map[string]*backendCache
}

// backendCache holds for one backend while it describes itself the same way,
// because selectors see parts of that.
type backendCache struct {
	vendor, version string
	devices         map[*inventory.Device]*assignment
}

// assignment is what the rules make of one device. It never changes.
type assignment struct {
	// rule is the index of the first rule that selects the device, or -1.
	rule     int
	units    []string // the IDs of its units
	problems []string
}

// rule is one resource of the profile.
type rule struct {
	config.Resource
	limit    int                       // replicas per container, 0 for none
	selector *dracel.CompilationResult // nil selects all
}

// Compile prepares the resources of a profile, which comes from package config
// and is complete. It keeps no reference to p. The errors are about selectors;
// a profile that was validated has none.
func Compile(p *config.Profile) (*Mapper, error) {
	m := &Mapper{rules: make([]rule, len(p.Resources)), cache: map[string]*backendCache{}}
	var errs []error
	for i, r := range p.Resources {
		m.rules[i] = rule{Resource: r}
		if r.MaxReplicasPerContainer != nil {
			m.rules[i].limit = *r.MaxReplicasPerContainer
		}
		if r.Selector == "" {
			continue
		}
		compiled, err := config.CompileSelector(r.Selector)
		if err != nil {
			errs = append(errs, fmt.Errorf("resource %s: selector: %w", r.Name, err))
			continue
		}
		m.rules[i].selector = compiled
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m, nil
}

// Map makes the table of a snapshot. The same snapshot and verdicts always give
// the same table: units are in the order of the snapshot's backends and, within
// one, of its devices. It does not fail; what is wrong is among the problems.
func (m *Mapper) Map(snap *inventory.Snapshot, verdicts Verdicts) *Table {
	t := &Table{Generation: snap.Generation, Resources: make([]*Resource, len(m.rules))}
	assigned := m.assign(snap)
	counts := make([]int, len(m.rules))
	for _, devices := range assigned {
		for _, a := range devices {
			if a.rule >= 0 {
				counts[a.rule] += len(a.units)
			}
		}
	}
	for i, r := range m.rules {
		t.Resources[i] = &Resource{
			Name:                    r.Name,
			Injection:               r.Injection,
			Registration:            r.Registration,
			Replicas:                max(1, r.Replicas),
			MaxReplicasPerContainer: r.limit,
			Units:                   make([]Unit, 0, counts[i]),
		}
	}
	// Within one resource a device ID counts once: kubelet knows no backends.
	owners := make([]map[string]string, len(m.rules))
	for i, backend := range snap.Backends {
		for j, d := range backend.Devices {
			t.add(backend, d, assigned[i][j], owners, verdicts)
		}
	}
	return t
}

// add puts a device where it belongs. owners has, by resource, the backend that
// each device ID was taken from.
func (t *Table) add(backend *inventory.Backend, d *inventory.Device, a *assignment, owners []map[string]string, verdicts Verdicts) {
	for _, problem := range a.problems {
		t.Problems = append(t.Problems, inventory.Problem{Device: d.ID, Message: problem})
	}
	if a.rule < 0 {
		t.Unassigned = append(t.Unassigned, d.Key)
		return
	}
	r := t.Resources[a.rule]
	if owners[a.rule] == nil {
		owners[a.rule] = map[string]string{}
	}
	if owner, taken := owners[a.rule][d.ID]; taken {
		t.Problems = append(t.Problems, inventory.Problem{Device: d.ID, Message: fmt.Sprintf(
			"resource %s: backend %s reports the same ID as backend %s, and kubelet could not tell them apart; "+
				"the one of %s is left out: give one of them another resource", r.Name, backend.Name, owner, backend.Name)})
		return
	}
	owners[a.rule][d.ID] = backend.Name
	verdict := verdicts.Verdict(d.Key)
	for _, id := range a.units {
		r.Units = append(r.Units, Unit{ID: id, Device: d, Verdict: verdict})
	}
}

// assign finds the resource of every device, by backend and device, and forgets
// the devices that are gone.
func (m *Mapper) assign(snap *inventory.Snapshot) [][]*assignment {
	m.mu.Lock()
	defer m.mu.Unlock()
	assigned := make([][]*assignment, len(snap.Backends))
	next := make(map[string]*backendCache, len(snap.Backends))
	for i, backend := range snap.Backends {
		old := m.cache[backend.Name]
		if old != nil && (old.vendor != backend.Description.Vendor || old.version != backend.Description.Version) {
			old = nil
		}
		now := &backendCache{
			vendor:  backend.Description.Vendor,
			version: backend.Description.Version,
			devices: make(map[*inventory.Device]*assignment, len(backend.Devices)),
		}
		assigned[i] = make([]*assignment, len(backend.Devices))
		for j, d := range backend.Devices {
			var a *assignment
			if old != nil {
				a = old.devices[d]
			}
			if a == nil {
				a = m.evaluate(backend, d)
			}
			now.devices[d], assigned[i][j] = a, a
		}
		next[backend.Name] = now
	}
	m.cache = next
	return assigned
}

// evaluate applies the rules to one device.
func (m *Mapper) evaluate(backend *inventory.Backend, d *inventory.Device) *assignment {
	a := &assignment{rule: -1}
	var input *dracel.Device // made when the first selector needs it
	for i, r := range m.rules {
		if cmp.Or(r.Backend, backend.Name) != backend.Name || cmp.Or(r.Class, d.Class) != d.Class {
			continue
		}
		if r.selector != nil {
			if input == nil {
				in := celDevice(backend, d)
				input = &in
			}
			selected, err := evaluate(r.selector, *input)
			if err != nil {
				a.problems = append(a.problems, fmt.Sprintf("resource %s: the selector failed on this device of backend %s, which it therefore does not select: %v",
					r.Name, backend.Name, err))
			}
			if err != nil || !selected {
				continue
			}
		}
		a.rule = i
		a.name(r, d)
		break
	}
	a.problems = slices.Clip(a.problems)
	return a
}

// name makes the IDs of a device's units.
func (a *assignment) name(r rule, d *inventory.Device) {
	if r.Replicas <= 1 {
		a.units = []string{d.ID}
		return
	}
	a.units = make([]string, r.Replicas)
	for n := range a.units {
		a.units[n] = unitID(d.ID, n)
	}
	if last := a.units[len(a.units)-1]; len(last) > maxUnitID {
		// Shortening the ID would hide which device it is from everything that
		// reads IDs; kubelet itself does not look at the length.
		a.problems = append(a.problems, fmt.Sprintf("resource %s: with %d replicas the ID of a unit becomes %d characters long, "+
			"more than the %d that kubelet's API allows; it is advertised all the same", r.Name, r.Replicas, len(last), maxUnitID))
	}
}
