// Package reference finds the names in a profile that no backend has: device classes, attributes and capacities in
// selectors, names of resources and features, parameters. Manifests say which there are; a name that is misspelt selects
// nothing, and nothing else would report it.
//
// It does not check whether devices of this node have an attribute: many exist on some machines only.
package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/suggestion"
)

// Set has the names that a profile uses. It never changes.
type Set struct{ uses []use }

// use is a name in a field of a profile.
type use struct {
	// found is what is returned if no backend has the name.
	found Unknown
	// of are the backends that may have the name: one of them must. class is that of the resource; "" for all.
	of    []string
	class string
	// isWarning: it is for [Set.Warnings].
	isWarning bool
	// check returns what is wrong with the name, of backends that have the class; "" if one has it.
	check func(of []*inventory.Backend) string
}

// Unknown is a name that no backend has, or one that is used as what it is not.
type Unknown struct {
	// Field is the path of the field below the profile, such as resources[1].selector.
	Field string
	// Resource or Backend is the entry of the profile that the field is of.
	Resource, Backend string
	// Empties is whether the resource has no device because of the name.
	Empties bool
	Message string
}

// Unknown returns the names that no backend has, as far as the backends that may have a name are described. A backend that
// declares no attributes, or leaves the list open, may have any. A nil Set has no names.
func (s *Set) Unknown(backends []*inventory.Backend) []Unknown { return s.unknown(backends, false) }

// Warnings returns what is hardly meant, and which an agent runs with as before: parameters that no backend has which may have
// devices of the resource, values that a parameter or an attribute cannot have, and what the settings leave no device of, as
// far as [inventory.Limits] say so.
func (s *Set) Warnings(backends []*inventory.Backend) []Unknown { return s.unknown(backends, true) }

func (s *Set) unknown(backends []*inventory.Backend, warnings bool) (all []Unknown) {
	if s == nil {
		return nil
	}
	described := map[string]*inventory.Backend{}
	for _, b := range backends {
		if len(b.Description.Classes) > 0 { // a manifest has one
			described[b.Name] = b
		}
	}
	for _, u := range s.uses {
		var of []*inventory.Backend
		isKnown := u.isWarning == warnings
		for _, name := range u.of {
			b := described[name]
			isKnown = isKnown && b != nil
			if b != nil && (u.class == "" || slices.Contains(b.Description.Classes, u.class)) {
				of = append(of, b)
			}
		}
		if !isKnown || len(of) == 0 { // no backend has the class: it is wrong
			continue
		}
		if u.found.Message = u.check(of); u.found.Message != "" {
			all = append(all, u.found)
		}
	}
	return all
}

// Find returns the names in a profile that is complete and valid.
func Find(p *config.Profile) *Set {
	s := &Set{}
	var backends []string
	for i := range p.Backends {
		backends = append(backends, p.Backends[i].Name)
		s.backend(&p.Backends[i], fmt.Sprintf("backends[%d]", i))
	}
	for i := range p.Resources {
		s.resource(&p.Resources[i], fmt.Sprintf("resources[%d]", i), backends, p.Resources)
	}
	return s
}

func (s *Set) backend(b *config.Backend, at string) {
	add := func(field string, check func([]*inventory.Backend) string) {
		s.uses = append(s.uses, use{found: Unknown{Field: at + "." + field, Backend: b.Name}, of: []string{b.Name}, check: check})
	}
	warn := func(field string, check func([]*inventory.Backend) string) {
		add(field, check)
		s.uses[len(s.uses)-1].isWarning = true
	}
	warn("settings", kinds)
	for i, prefix := range b.VendorLabels {
		warn(fmt.Sprintf("vendorLabels[%d]", i), labels(prefix))
	}
	if !slices.Equal(b.Features, config.DefaultFeatures()) {
		for i, name := range b.Features {
			add(fmt.Sprintf("features[%d]", i), attribute{name: name, isFeature: true}.check)
		}
	}
	for i, k := range b.DRA.Kinds {
		for _, field := range slices.Sorted(maps.Keys(k.Fields)) {
			add(config.FieldPath(fmt.Sprintf("dra.kinds[%d].fields", i), field),
				parameter(k.Fields[field], fmt.Sprintf("claims with the field %s of %s are refused: ", field, k.Kind)))
		}
	}
}

// resource adds what a resource uses. The profile has these backends and resources.
func (s *Set) resource(r *config.Resource, at string, backends []string, all []config.Resource) {
	possible := backends
	if r.Backend != "" {
		possible = []string{r.Backend}
	}
	add := func(field string, u use) {
		u.found = Unknown{Field: at + "." + field, Resource: r.Name, Empties: !u.isWarning}
		if u.of == nil {
			u.of = possible
		}
		s.uses = append(s.uses, u)
	}
	if r.Class != "" {
		add("class", use{check: class(r.Class)})
		add("class", use{class: r.Class, isWarning: true, check: absent(r.Class, r.API)})
	}
	if r.API == config.APIDevicePlugin && r.Selector == "" { // with one it may have other devices
		add("replicas", use{class: r.Class, isWarning: true, check: preparedFor(r, all)})
	}
	if r.Reset == config.ResetDevicesAfterUse {
		add("reset", use{class: r.Class, isWarning: true, check: unresettable})
	}
	if name, err := config.ParseName(r.Name); err == nil {
		for _, placeholder := range name.Placeholders() {
			if !strings.HasPrefix(placeholder, config.FactsDomain+"/") && !slices.Contains(config.Standard(), placeholder) { // which are checked before
				a := attribute{name: placeholder, isPlaceholder: true}
				add("name", use{class: r.Class, check: a.check})
				add("name", use{class: r.Class, isWarning: true, check: a.owned(r.Class)})
			}
		}
	}
	referred, compared := references(r.Selector)
	for _, reference := range referred {
		a := attribute{name: reference.Name, reference: reference}
		for _, c := range compared {
			if c.Reference == reference {
				a.compared = append(a.compared, c)
			}
		}
		u := use{class: r.Class}
		switch {
		case reference.Name == "", !reference.IsCapacity() && slices.Contains(config.Standard(), reference.Domain+"/"+reference.Name): // checked before, as the domain as a whole
			continue
		case reference.Domain == config.FactsDomain: // the names of facts are checked before
			add("selector", use{class: r.Class, isWarning: true, check: a.fact})
			continue
		case slices.Contains(backends, reference.Domain):
			u.of = []string{reference.Domain}
		default:
			a.name = reference.Domain + "/" + reference.Name
		}
		u.check = a.check
		add("selector", u)
		u.isWarning, u.check = true, a.value
		add("selector", u)
		if len(a.compared) > 0 {
			u.check = a.owned(r.Class)
			add("selector", u)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		at := config.FieldPath("parameters", name)
		add(at, use{class: r.Class, isWarning: true, check: parameter(name, "containers with a value for it do not start: ")})
		add(at+".value", use{class: r.Class, isWarning: true, check: parameterValue(name, r.Parameters[name])})
	}
}

// references returns those of a selector, each once, and how it compares them.
func references(selector string) (once []config.Reference, compared []config.Comparison) {
	if selector == "" {
		return nil, nil
	}
	compiled, err := config.CompileSelector(selector)
	if err != nil {
		return nil, nil // the profile would not have been loaded
	}
	all, err := config.References(compiled)
	if err != nil {
		return nil, nil
	}
	for _, r := range all {
		if !slices.Contains(once, r) {
			once = append(once, r)
		}
	}
	if compared, err = config.Comparisons(compiled); err != nil {
		return once, nil
	}
	return once, compared
}

func class(name string) func([]*inventory.Backend) string {
	return func(of []*inventory.Backend) string {
		var classes []string
		for _, b := range of {
			for _, class := range b.Description.Classes {
				if !slices.Contains(classes, class) {
					classes = append(classes, class)
				}
			}
		}
		if slices.Contains(classes, name) {
			return ""
		}
		hint := suggestion.OrAll(name, "there are", classes)
		if slices.ContainsFunc(of, func(b *inventory.Backend) bool { return b.Name == name }) {
			hint = fmt.Sprintf("; it is a backend: write backend: %s", name)
		}
		return fmt.Sprintf("no backend has devices of the class %s, so the resource would be empty%s", name, hint)
	}
}

// parameter checks the name of a parameter; the message begins with the consequence.
func parameter(name, consequence string) func([]*inventory.Backend) string {
	return func(of []*inventory.Backend) string {
		var all []inventory.Parameter
		for _, b := range of {
			all = append(all, b.Description.Parameters...)
		}
		if slices.ContainsFunc(all, func(p inventory.Parameter) bool { return p.Name == name }) {
			return ""
		}
		return consequence + inventory.UnknownParameter(name, all)
	}
}

// attribute is the name of an attribute or a capacity.
type attribute struct {
	name string
	// reference is what a selector refers to, and compared how it compares that; the name of a resource is made of a
	// placeholder, and a feature is either.
	reference                config.Reference
	compared                 []config.Comparison
	isPlaceholder, isFeature bool
}

func (a attribute) check(of []*inventory.Backend) string {
	kind, other := inventory.AnyKind, inventory.CapacityKind
	if a.reference.IsCapacity() {
		kind, other = other, kind
	}
	var all []inventory.Declaration
	for _, b := range of {
		declared := b.Description.Attributes
		if len(declared) == 0 || inventory.Declares(declared, a.name, kind) || a.isFeature && inventory.Declares(declared, a.name, other) {
			return a.mismatch(declared) // a manifest without any does not say which there are
		}
		all = append(all, declared...)
	}
	there := namesOf(all, kind)
	if a.isFeature {
		there = append(there, namesOf(all, other)...)
	}
	return a.missing(of, inventory.Declares(all, a.name, other), there)
}

// mismatch returns what is wrong with the comparisons of an attribute that a backend has; "" if nothing is.
func (a attribute) mismatch(declared []inventory.Declaration) string {
	for _, d := range declared {
		for _, c := range a.compared {
			if wrong := c.Mismatch(string(d.Kind)); d.Name == a.name && wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// missing returns the message for a name that the backends do not have. isOther: they have a capacity of that name
// instead of an attribute, or an attribute instead of a capacity. There are the names that they have.
func (a attribute) missing(of []*inventory.Backend, isOther bool, there []string) string {
	what := "attribute"
	switch {
	case a.reference.IsCapacity():
		what = "capacity"
	case a.isFeature:
		what = "attribute or capacity"
	}
	text := fmt.Sprintf("no device has the %s %s", what, a.name)
	if len(of) == 1 {
		text = fmt.Sprintf("no device of backend %s has the %s %s", of[0].Name, what, a.name)
	}
	if a.isPlaceholder {
		text += ", of which the name is made, so there is no such resource"
	}
	bare := a.name[strings.LastIndex(a.name, "/")+1:]
	isFact := slices.Contains(config.Facts(), bare)
	expression := a.reference.String()
	switch {
	case strings.HasPrefix(a.name, kubernetesDomain) && !a.reference.IsCapacity():
		return text + suggestion.OrAll(a.name, "there are", config.Standard())
	case isOther && a.isPlaceholder:
		return text + "; it is a capacity, and names are made of attributes only"
	case isOther && a.reference.IsCapacity():
		return text + "; it is an attribute: " + strings.Replace(expression, "capacity", "attributes", 1)
	case isOther:
		return text + "; it is a capacity: " + strings.Replace(expression, "attributes", "capacity", 1)
	case isFact && a.isPlaceholder:
		return text + fmt.Sprintf("; every device has {%s/%s}", config.FactsDomain, bare)
	case isFact && a.reference.Field != "" && !a.reference.IsCapacity():
		return text + fmt.Sprintf("; every device has device.attributes[%q].%s", config.FactsDomain, a.reference.Name)
	case a.reference.Field != "" && bare != a.name && slices.Contains(there, bare):
		return text + fmt.Sprintf("; the domain of a backend is its name: device.%s[%q].%s", a.reference.Field, a.owner(of, bare), bare)
	}
	return text + suggestion.OrAll(a.name, "there are", there)
}

// kubernetesDomain begins the names of attributes that drivers of all vendors publish.
const kubernetesDomain = "resource.kubernetes.io/"

// owner returns the backend that is meant by another domain: of those with the name, the one whose name is in the domain, or
// the first.
func (a attribute) owner(of []*inventory.Backend, name string) (owner string) {
	for _, b := range of {
		declares := slices.ContainsFunc(b.Description.Attributes, func(d inventory.Declaration) bool { return d.Name == name })
		if (owner == "" || strings.Contains(a.reference.Domain, b.Name)) && declares {
			owner = b.Name
		}
	}
	return owner
}

// namesOf returns the names of attributes or of capacities, sorted.
func namesOf(all []inventory.Declaration, kind inventory.AttributeKind) []string {
	var names []string
	for _, d := range all {
		if (d.Kind == inventory.CapacityKind) == (kind == inventory.CapacityKind) && !strings.HasSuffix(d.Name, "*") {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
