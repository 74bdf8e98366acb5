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
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verdicts says what is thought of a device's health; a health.View is one. It never
// changes.
type Verdicts interface {
	Verdict(k inventory.Key) health.Verdict
}

// Mapper maps devices to the resources of one profile. It is safe for
// concurrent use.
type Mapper struct {
	rules []rule

	mu    sync.Mutex
	names *names
	// cache remembers what the rules made of the devices of the latest snapshot,
	// by backend. Devices never change and snapshots share them, so a device that
	// is still the same pointer need not be evaluated again.
	cache map[string]*backendCache
	// last is the latest table: who had an ID in it keeps it.
	last *Table
}

// backendCache holds for one backend while it describes itself the same way,
// because selectors see parts of that.
type backendCache struct {
	vendor, version string
	// devices are those of the latest snapshot, and assigned what the rules made of them.
	devices  []*inventory.Device
	assigned []*assignment
}

// describes reports whether it is of what the backend still says of itself.
func (c *backendCache) describes(backend *inventory.Backend) bool {
	return c != nil && c.vendor == backend.Description.Vendor && c.version == backend.Description.Version
}

// assignment is what the rules make of one device. It never changes, apart from
// what its kind is called.
type assignment struct {
	// rule is the index of the first rule that selects the device, or -1.
	rule int
	// kind is what stands behind the device's name; nil if that has no placeholders. So
	// most devices of a rule are assigned by one and the same, rule.plain.
	kind     *kind
	problems []string
}

// rule is one resource of the profile.
type rule struct {
	config.Resource
	selector *dracel.CompilationResult // nil selects all
	template *config.NameTemplate
	// placeholders are the template's; none: the name is as it is written.
	placeholders []resourceapi.QualifiedName
	// plain assigns a device without a kind and problems.
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

// Inherit has the names that the Mapper of a configuration before made stay, as far
// as a template of this one may have made them, and with the kinds that have them
// where the template is the same. It must come before the first Map.
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
// and, within one, of its devices. The same snapshot and verdicts give the same table,
// but for names with placeholders: those that devices made before stay, without devices,
// and who has a name keeps it, or an ID that two backends report; and new names wait
// where there are many (see Table.RetryAt). held are the names of
// resources that containers hold devices of, which the caller must not change any more. It
// does not fail; what is wrong is among the problems.
func (m *Mapper) Map(snap *inventory.Snapshot, verdicts Verdicts, held map[string]bool) *Table {
	m.mu.Lock()
	defer m.mu.Unlock()
	assigned := m.assign(snap)
	m.names.give(assigned, held)
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
	owners := m.contested(snap, assigned, t)
	for i, backend := range snap.Backends {
		for j, d := range backend.Devices {
			a := assigned[i][j]
			t.add(backend, d, a, m.names.place(a), owners, verdicts)
		}
	}
	m.last = t
	return t
}

// empty is a table of all resources, without devices. The caller holds m.mu.
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

// add adds a device to the resource at place. owners has the backends of the
// IDs that several report.
func (t *Table) add(backend *inventory.Backend, d *inventory.Device, a *assignment, place int, owners map[contest]string, verdicts Verdicts) {
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
	if owner, contested := owners[contest{place, d.ID}]; contested && owner != backend.Name {
		t.Problems = append(t.Problems, inventory.Problem{Device: d.ID, Message: fmt.Sprintf(
			"resource %s: backend %s reports the same ID as backend %s, and kubelet could not tell them apart; "+
				"the one of %s is left out: give one of them another resource", r.Name, backend.Name, owner, backend.Name)})
		return
	}
	r.Devices = append(r.Devices, Device{d, verdicts.Verdict(d.Key)})
}

// assign finds the resource of every device, by backend and device, and forgets
// the devices that are gone. The caller holds m.mu.
func (m *Mapper) assign(snap *inventory.Snapshot) [][]*assignment {
	assigned := make([][]*assignment, len(snap.Backends))
	next := make(map[string]*backendCache, len(snap.Backends))
	for i, backend := range snap.Backends {
		old := m.cache[backend.Name]
		if !old.describes(backend) {
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
	if d.Potential {
		return a // Prepare makes it after kubelet's Allocate: the device plugin API cannot serve it
	}
	var input *dracel.Device // made when the first rule needs it
	for i, r := range m.rules {
		if cmp.Or(r.Backend, backend.Name) != backend.Name || cmp.Or(r.Class, d.Class) != d.Class {
			continue
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

// generate finds the kind of a device that a rule with placeholders selects; false
// if the device does not make a name.
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
