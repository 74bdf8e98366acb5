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

// Unknown returns the names that no backend has, as far as the backends that may have a name are described. Those of
// parameters of resources are [Set.Parameters]. A backend that declares no attributes, or leaves the list open, lacks a
// name only if its devices have a similar one and not this. A nil Set has no names.
func (s *Set) Unknown(backends []*inventory.Backend) []Unknown {
	return s.unknown(backends, func(u use) bool { return u.what != ofParameter })
}

// Parameters returns the parameters of resources that no backend has which may have devices of the resource.
func (s *Set) Parameters(backends []*inventory.Backend) []Unknown {
	return s.unknown(backends, func(u use) bool { return u.what == ofParameter })
}

func (s *Set) unknown(backends []*inventory.Backend, which func(use) bool) (all []Unknown) {
	if s == nil {
		return nil
	}
	k := knowledge{backends: map[string]*inventory.Backend{}, seen: map[string][]inventory.Declaration{}}
	for _, b := range backends {
		if len(b.Description.Classes) > 0 { // the contract requires one
			k.backends[b.Name] = b
		}
	}
	for _, u := range s.uses {
		if !which(u) {
			continue
		}
		if message := k.check(u); message != "" {
			all = append(all, Unknown{
				Field: u.field, Resource: u.resource, Backend: u.backend, Message: message,
				Empties: u.what == ofClass || u.what == ofSelector || u.what == ofPlaceholder,
			})
		}
	}
	return all
}

// knowledge is what is known of the backends.
type knowledge struct {
	// backends are those that are described, by name.
	backends map[string]*inventory.Backend
	// seen is what the devices of a backend have, as if it were declared; filled where needed.
	seen map[string][]inventory.Declaration
}

// check returns what is wrong with a name; "" if it is right, or that is not known.
func (k *knowledge) check(u use) string {
	var of []*inventory.Backend
	for _, name := range u.of {
		b := k.backends[name]
		if b == nil {
			return ""
		}
		if u.what == ofClass || u.class == "" || slices.Contains(b.Description.Classes, u.class) {
			of = append(of, b)
		}
	}
	switch {
	case len(of) == 0:
		return "" // the class is wrong
	case u.what == ofClass:
		return class(u, of)
	case u.what == ofParameter || u.what == ofKind:
		return parameter(u, of)
	}
	return k.attribute(u, of)
}

func class(u use, of []*inventory.Backend) string {
	var classes []string
	for _, b := range of {
		for _, name := range b.Description.Classes {
			if !slices.Contains(classes, name) {
				classes = append(classes, name)
			}
		}
	}
	if slices.Contains(classes, u.name) {
		return ""
	}
	hint := suggestion.OrAll(u.name, "there are", classes)
	if slices.ContainsFunc(of, func(b *inventory.Backend) bool { return b.Name == u.name }) {
		hint = fmt.Sprintf("; it is a backend: write backend: %s", u.name)
	}
	return fmt.Sprintf("no backend has devices of the class %s, so the resource would be empty%s", u.name, hint)
}

func parameter(u use, of []*inventory.Backend) string {
	var all []inventory.Parameter
	for _, b := range of {
		all = append(all, b.Description.Parameters...)
	}
	if slices.ContainsFunc(all, func(p inventory.Parameter) bool { return p.Name == u.name }) {
		return ""
	}
	if u.what == ofKind {
		return fmt.Sprintf("claims with the field %s of %s are refused: %s", u.kindField, u.kind, inventory.UnknownParameter(u.name, all))
	}
	return "containers with a value for it do not start: " + inventory.UnknownParameter(u.name, all)
}

// attribute checks the name of an attribute or a capacity.
func (k *knowledge) attribute(u use, of []*inventory.Backend) string {
	kind, other := inventory.AnyKind, inventory.CapacityKind
	if u.reference.IsCapacity() {
		kind, other = other, kind
	}
	var all []inventory.Declaration
	for _, b := range of {
		if k.has(b, u.name, kind) || u.what == ofFeature && k.has(b, u.name, other) {
			return mismatch(u, b)
		}
		all = slices.Concat(all, declared(b), k.devices(b))
	}
	there := namesOf(all, kind)
	if u.what == ofFeature {
		there = append(there, namesOf(all, other)...)
	}
	return missing(u, of, inventory.Declares(all, u.name, other), there)
}

// mismatch returns what is wrong with the comparisons of an attribute that a backend has; "" if nothing is.
func mismatch(u use, b *inventory.Backend) string {
	for _, d := range declared(b) {
		for _, c := range u.compared {
			if wrong := c.Mismatch(string(d.Kind)); d.Name == u.name && wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// missing returns the message for a name that the backends do not have. isOther: they have a capacity of that name
// instead of an attribute, or an attribute instead of a capacity. There are the names that they have.
func missing(u use, of []*inventory.Backend, isOther bool, there []string) string {
	what := "attribute"
	switch {
	case u.reference.IsCapacity():
		what = "capacity"
	case u.what == ofFeature:
		what = "attribute or capacity"
	}
	text := fmt.Sprintf("no device has the %s %s", what, u.name)
	if len(of) == 1 {
		text = fmt.Sprintf("no device of backend %s has the %s %s", of[0].Name, what, u.name)
	}
	if u.what == ofPlaceholder {
		text += ", of which the name is made, so there is no such resource"
	}
	hint := suggestion.OrAll(u.name, "there are", there)
	bare := u.name[strings.LastIndex(u.name, "/")+1:]
	isFact := slices.Contains(config.Facts(), bare)
	expression := u.reference.String()
	switch {
	case isOther && u.what == ofPlaceholder:
		hint = "; it is a capacity, and names are made of attributes only"
	case isOther && u.reference.IsCapacity():
		hint = "; it is an attribute: " + strings.Replace(expression, "capacity", "attributes", 1)
	case isOther:
		hint = "; it is a capacity: " + strings.Replace(expression, "attributes", "capacity", 1)
	case isFact && u.what == ofPlaceholder:
		hint = fmt.Sprintf("; every device has {%s/%s}", config.FactsDomain, bare)
	case isFact && u.what == ofSelector && !u.reference.IsCapacity():
		hint = fmt.Sprintf("; every device has device.attributes[%q].%s", config.FactsDomain, u.reference.Name)
	case u.what == ofSelector && bare != u.name && slices.Contains(there, bare):
		hint = fmt.Sprintf("; the domain of a backend is its name: device.%s[%q].%s", u.reference.Field, ownerOf(u, of, bare), bare)
	}
	return text + hint
}

// ownerOf returns the backend that is meant by another domain: of those with the name, the one whose name is in the domain, or
// the first.
func ownerOf(u use, of []*inventory.Backend, name string) (owner string) {
	for _, b := range of {
		if (owner == "" || strings.Contains(u.reference.Domain, b.Name)) && slices.ContainsFunc(declared(b), func(d inventory.Declaration) bool { return d.Name == name }) {
			owner = b.Name
		}
	}
	return owner
}

// has reports whether a device of a backend may have an attribute, or a capacity, with the name.
func (k *knowledge) has(b *inventory.Backend, name string, kind inventory.AttributeKind) bool {
	if inventory.Declares(declared(b), name, kind) || inventory.Declares(k.devices(b), name, kind) {
		return true
	}
	isOpen := len(declared(b)) == 0 || len(declared(b)) < len(b.Description.Attributes)
	return isOpen && (len(b.Devices) == 0 || suggestion.Closest(name, namesOf(slices.Concat(declared(b), k.devices(b)), kind)) == "")
}

// declared returns what a backend declares, without that the list is open.
func declared(b *inventory.Backend) []inventory.Declaration {
	return slices.DeleteFunc(slices.Clone(b.Description.Attributes), func(d inventory.Declaration) bool { return d.Name == "*" })
}

// devices returns what the devices of a backend have, as if it were declared.
func (k *knowledge) devices(b *inventory.Backend) []inventory.Declaration {
	all, ok := k.seen[b.Name]
	if ok {
		return all
	}
	once := map[inventory.Declaration]bool{}
	for _, d := range b.Devices {
		for name := range d.Attributes.All() {
			once[inventory.Declaration{Name: name}] = true
		}
		for name := range d.Capacities.All() {
			once[inventory.Declaration{Name: name, Kind: inventory.CapacityKind}] = true
		}
	}
	k.seen[b.Name] = slices.Collect(maps.Keys(once))
	return k.seen[b.Name]
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
