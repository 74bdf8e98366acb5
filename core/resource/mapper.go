package resource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// Mapper maps devices to the resources of one profile. It is safe for
// concurrent use.
type Mapper struct {
	rules []rule

	mu    sync.Mutex
	names *names
	// cache has the assignments of the devices of the latest snapshot, by backend.
	// Devices never change and snapshots share them, so the same pointer need not be
	// evaluated again.
	cache map[string]*backendCache
	// last is the latest table. A backend that had an ID in it keeps it.
	last *Table
}

// backendCache is valid for one backend as long as its vendor and version are the same:
// selectors can use them.
type backendCache struct {
	vendor, version string
	// devices are those of the latest snapshot, and assigned has their assignments.
	devices  []*inventory.Device
	assigned []*assignment
}

// isOf reports whether the cache is valid for the backend.
func (c *backendCache) isOf(backend *inventory.Backend) bool {
	return c != nil && c.vendor == backend.Description.Vendor && c.version == backend.Description.Version
}

// assignment is the result of the rules for one device. It never changes, except for the
// fields of its kind.
type assignment struct {
	// rule is the index of the first rule that selects the device, or -1.
	rule int
	// kind is the device's kind; nil if the rule has no placeholders. Without one and without
	// problems the assignment is rule.plain, for all devices of the rule.
	kind     *kind
	problems []string
}

// rule is one resource of the profile.
type rule struct {
	config.Resource
	selector *dracel.CompilationResult // nil selects all
	template *config.NameTemplate
	// placeholders are those of the template; without any, the name is used as written.
	placeholders []resourceapi.QualifiedName
	// plain is the assignment of a device without a kind and without problems.
	plain *assignment
}

// Compile prepares the resources of a profile, which comes from package config
// and is complete. It keeps no reference to p. The errors are about names and
// selectors; a profile that was validated has none.
func Compile(p *config.Profile) (*Mapper, error) {
	m := &Mapper{rules: make([]rule, len(p.Resources)), cache: map[string]*backendCache{}}
	var errs []error
	for i, r := range p.Resources {
		compiled, err := compile(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("resource %s: %w", r.Name, err))
		}
		compiled.plain = &assignment{rule: i}
		m.rules[i] = compiled
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.names = newNames(m.rules)
	return m, nil
}

// compile prepares one resource.
func compile(r config.Resource) (compiled rule, err error) {
	compiled.Resource = r
	if compiled.template, err = config.ParseName(r.Name); err != nil {
		return rule{}, fmt.Errorf("name: %w", err)
	}
	for _, placeholder := range compiled.template.Placeholders() {
		compiled.placeholders = append(compiled.placeholders, resourceapi.QualifiedName(placeholder))
	}
	if r.Selector != "" {
		if compiled.selector, err = config.CompileSelector(r.Selector); err != nil {
			return rule{}, fmt.Errorf("selector: %w", err)
		}
	}
	return compiled, nil
}

// Inherit keeps the names that the Mapper of an earlier configuration made, if a template of
// this one may have made them. Where the template is the same, a name stays with its kind. It
// must be called before the first Map.
func (m *Mapper) Inherit(before *Mapper) {
	before.mu.Lock()
	defer before.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names.inherit(before.names)
	m.last = before.last
}

// Owns reports whether a resource may be one of the profile's: it has that name,
// or a template that may make it.
func (m *Mapper) Owns(name string) bool {
	return slices.ContainsFunc(m.rules, func(r rule) bool { return r.template.Matches(name) })
}

// Map makes the table of a snapshot: devices are in the order of the snapshot's backends
// and, within one, of its devices. Their health makes no difference. The same snapshot gives the same table,
// except that names made by templates stay without devices, that a name stays with its kind
// and a duplicate ID with its backend, and that new names may have to wait (see
// Table.RetryAt). held has the names of resources with allocated devices; the caller must not
// change it any more. Map does not fail; the table has the problems.
func (m *Mapper) Map(snap *inventory.Snapshot, held map[string]bool) *Table {
	m.mu.Lock()
	defer m.mu.Unlock()
	assigned := m.assign(snap)
	m.names.assign(assigned, held)
	t := m.empty(snap, held)
	counts := make([]int, len(t.Resources))
	for _, devices := range assigned {
		for _, a := range devices {
			if place := m.names.place(a); place >= 0 {
				counts[place]++
			}
		}
	}
	for i, r := range t.Resources {
		r.Devices = make([]Device, 0, counts[i])
	}
	owners := m.idOwners(snap, assigned, t)
	for i, backend := range snap.Backends {
		for j, d := range backend.Devices {
			a := assigned[i][j]
			t.add(backend, d, a, m.names.place(a), owners)
		}
	}
	m.last = t
	return t
}

// empty returns a table of all resources, without devices. The caller holds m.mu.
func (m *Mapper) empty(snap *inventory.Snapshot, held map[string]bool) *Table {
	slots := m.names.slots
	t := &Table{Generation: snap.Generation, RetryAt: m.names.retryAt, Resources: make([]*Resource, len(slots))}
	for i, slot := range slots {
		r := &Resource{Resource: m.rules[slot.rule].Resource, Held: held[slot.name]}
		r.Name = slot.name
		t.Resources[i] = r
	}
	return t
}

// add adds a device to the resource at place. owners is the result of idOwners.
func (t *Table) add(backend *inventory.Backend, d *inventory.Device, a *assignment, place int, owners map[duplicateID]string) {
	for _, problem := range a.problems {
		t.Problems = append(t.Problems, inventory.Problem{Device: d.ID, Message: problem})
	}
	if a.rule < 0 {
		t.Unassigned = append(t.Unassigned, d.Key)
		return
	}
	if place < 0 {
		t.Problems = append(t.Problems, inventory.Problem{Device: d.ID, Message: a.kind.why})
		return
	}
	r := t.Resources[place]
	if owner, duplicate := owners[duplicateID{place, d.ID}]; duplicate && owner != backend.Name {
		t.Problems = append(t.Problems, inventory.Problem{Device: d.ID, Message: fmt.Sprintf(
			"resource %s: backend %s reports the same ID as backend %s, and kubelet could not tell them apart; "+
				"the one of %s is left out: give one of them another resource", r.Name, backend.Name, owner, backend.Name)})
		return
	}
	r.Devices = append(r.Devices, Device{Device: d, Resource: r.Name})
}

// assign returns the assignment of every device, by backend and device, and removes from the
// cache what is not in the snapshot. The caller holds m.mu.
func (m *Mapper) assign(snap *inventory.Snapshot) [][]*assignment {
	assigned := make([][]*assignment, len(snap.Backends))
	next := make(map[string]*backendCache, len(snap.Backends))
	for i, backend := range snap.Backends {
		old := m.cache[backend.Name]
		if !old.isOf(backend) {
			old = &backendCache{}
		}
		assigned[i] = make([]*assignment, len(backend.Devices))
		var moved map[*inventory.Device]*assignment
		for j, d := range backend.Devices {
			if j < len(old.devices) && old.devices[j] == d {
				assigned[i][j] = old.assigned[j]
				continue
			}
			if moved == nil {
				moved = old.byDevice()
			}
			a := moved[d]
			if a == nil {
				a = m.evaluate(backend, d)
			}
			assigned[i][j] = a
		}
		next[backend.Name] = &backendCache{
			vendor: backend.Description.Vendor, version: backend.Description.Version,
			devices: backend.Devices, assigned: assigned[i],
		}
	}
	m.cache = next
	return assigned
}

func (c *backendCache) byDevice() map[*inventory.Device]*assignment {
	of := make(map[*inventory.Device]*assignment, len(c.devices))
	for i, d := range c.devices {
		of[d] = c.assigned[i]
	}
	return of
}

// evaluate applies the rules to one device.
func (m *Mapper) evaluate(backend *inventory.Backend, d *inventory.Device) *assignment {
	a := &assignment{rule: -1}
	var input *dracel.Device // made for the first rule that needs it
	for i, r := range m.rules {
		if cmp.Or(r.Backend, backend.Name) != backend.Name || cmp.Or(r.Class, d.Class) != d.Class {
			continue
		}
		if d.IsOnDemand() && r.API != config.APIDRA {
			continue // the device plugin API has no way to express what devices exclude each other
		}
		if input == nil && (r.selector != nil || len(r.placeholders) > 0) {
			in := celDevice(backend, d)
			input = &in
		}
		if r.selector != nil {
			selected, err := evaluate(r.selector, *input)
			if err != nil {
				a.problems = append(a.problems, fmt.Sprintf("resource %s: the selector failed on this device of backend %s, which it therefore does not select: %v",
					r.Name, backend.Name, err))
			}
			if err != nil || !selected {
				continue
			}
		}
		if len(r.placeholders) > 0 && !m.generate(a, i, input, backend) {
			continue
		}
		a.rule = i
		if a.kind == nil && len(a.problems) == 0 {
			return r.plain
		}
		break
	}
	a.problems = slices.Clip(a.problems)
	return a
}

// generate sets the kind of a device that a rule with placeholders selects; false if the
// device's attributes make no valid name.
func (m *Mapper) generate(a *assignment, rule int, input *dracel.Device, backend *inventory.Backend) bool {
	r := &m.rules[rule]
	values, ok := placeholderValues(r.placeholders, input)
	if !ok {
		return false
	}
	name, err := r.template.Name(values...)
	if err != nil {
		a.problems = append(a.problems, fmt.Sprintf("resource %s: the name that this device of backend %s makes of %q %v; "+
			"it is not selected: give such devices a resource with another name before this one", r.Name, backend.Name, values, err))
		return false
	}
	a.kind = m.names.kind(rule, name, values)
	return true
}
