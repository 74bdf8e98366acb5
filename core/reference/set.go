package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
)

// Set has the names that a profile uses. It never changes.
type Set struct {
	uses []use
	// backends are those of the profile.
	backends []string
}

// use is a name in a field of a profile.
type use struct {
	what what
	name string
	// field is that of [Unknown].
	field string
	// resource and backend are those that the field is of; "" for none.
	resource, backend string
	// of are the backends that may have the name: one of them must.
	of []string
	// class is the class of the resource; "" for all.
	class string
	// reference is what a selector refers to, and compared how it compares that.
	reference config.Reference
	compared  []config.Comparison
	// kind and kindField are the opaque kind, and its field, that the parameter is for.
	kind, kindField string
}

// what is what a name is of.
type what int

const (
	ofClass what = iota
	ofSelector
	ofPlaceholder
	ofFeature
	ofKind
	ofParameter
)

// Find returns the names in a profile that is complete and valid.
func Find(p *config.Profile) *Set {
	s := &Set{}
	for i := range p.Backends {
		s.backends = append(s.backends, p.Backends[i].Name)
	}
	for i := range p.Backends {
		s.backend(&p.Backends[i], fmt.Sprintf("backends[%d]", i))
	}
	for i := range p.Resources {
		s.resource(&p.Resources[i], fmt.Sprintf("resources[%d]", i))
	}
	return s
}

func (s *Set) backend(b *config.Backend, at string) {
	if !slices.Equal(b.Features, config.DefaultFeatures()) {
		for i, name := range b.Features {
			s.uses = append(s.uses, use{what: ofFeature, name: name, field: fmt.Sprintf("%s.features[%d]", at, i), backend: b.Name, of: []string{b.Name}})
		}
	}
	for i, k := range b.DRA.Kinds {
		for _, field := range slices.Sorted(maps.Keys(k.Fields)) {
			s.uses = append(s.uses, use{
				what: ofKind, name: k.Fields[field], field: config.FieldPath(fmt.Sprintf("%s.dra.kinds[%d].fields", at, i), field),
				backend: b.Name, of: []string{b.Name}, kind: k.Kind, kindField: field,
			})
		}
	}
}

func (s *Set) resource(r *config.Resource, at string) {
	of := s.backends
	if r.Backend != "" {
		of = []string{r.Backend}
	}
	add := func(u use) {
		u.resource, u.class, u.field = r.Name, r.Class, at+"."+u.field
		if u.of == nil {
			u.of = of
		}
		s.uses = append(s.uses, u)
	}
	if r.Class != "" {
		add(use{what: ofClass, name: r.Class, field: "class"})
	}
	if name, err := config.ParseName(r.Name); err == nil {
		for _, placeholder := range name.Placeholders() {
			if !strings.HasPrefix(placeholder, config.FactsDomain+"/") { // which is checked before
				add(use{what: ofPlaceholder, name: placeholder, field: "name"})
			}
		}
	}
	all, compared := references(r.Selector)
	for _, reference := range all {
		u := use{what: ofSelector, name: reference.Name, field: "selector", reference: reference}
		for _, c := range compared {
			if c.Reference == reference {
				u.compared = append(u.compared, c)
			}
		}
		switch {
		case reference.Name == "" || reference.Domain == config.FactsDomain: // the domain as a whole, and facts, are checked before
			continue
		case slices.Contains(s.backends, reference.Domain):
			u.of = []string{reference.Domain}
		default:
			u.name = reference.Domain + "/" + reference.Name
		}
		add(u)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		add(use{what: ofParameter, name: name, field: config.FieldPath("parameters", name)})
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
