package cdi

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// maxDefinitions bounds how many definitions one device may have at a time: a
// backend that changes the edits of a held device again and again must not fill
// the file.
const maxDefinitions = 16

// definition is what one CDI name means. Two that are equal mean the same.
type definition struct {
	key inventory.Key
	// base is the canonical text of the device's own edits, and amendment of
	// those that Prepare added; "" for none.
	base, amendment string
}

// edits are the whole of what a container gets.
func (d definition) edits() (*specs.ContainerEdits, error) {
	base, err := decode(d.base)
	if err != nil || d.amendment == "" {
		return base, err
	}
	amendment, err := decode(d.amendment)
	if err != nil {
		return nil, err
	}
	return compose(base, amendment), nil
}

// definitions are those of one kind, by the device name in the spec.
type definitions map[string]definition

// of are the names of one device, sorted.
func (d definitions) of(key inventory.Key) []string {
	var names []string
	for name, definition := range d {
		if definition.key == key {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// want is a device that is there, and the canonical text of its edits.
type want struct {
	key  inventory.Key
	base string
}

// planned is what the definitions of one kind are to become.
type planned struct {
	next    definitions
	current map[inventory.Key]string
	errs    map[inventory.Key]error
}

// plan decides what the definitions become, given what they are, the names that
// were given out last, the devices that are there, and who is held. It is where
// the table in the package comment is carried out.
func plan(old definitions, last map[inventory.Key]string, wanted []want, held func(inventory.Key) bool) planned {
	p := planned{next: maps.Clone(old), current: map[inventory.Key]string{}, errs: map[inventory.Key]error{}}
	if p.next == nil {
		p.next = definitions{}
	}
	byKey := map[inventory.Key][]string{}
	for name, d := range old {
		byKey[d.key] = append(byKey[d.key], name)
	}
	// One answer for each device and plan, so that a device which is taken in
	// between is not half held.
	answers := map[inventory.Key]bool{}
	isHeld := func(key inventory.Key) bool {
		answer, ok := answers[key]
		if !ok {
			answer = held(key)
			answers[key] = answer
		}
		return answer
	}
	for _, w := range wanted {
		mine := byKey[w.key]
		slices.Sort(mine)
		name, err := p.choose(w, mine, last[w.key], isHeld(w.key))
		if err != nil {
			p.errs[w.key] = err
			continue
		}
		d := p.next[name]
		if d.key != w.key || d.base != w.base {
			p.next[name] = definition{key: w.key, base: w.base}
		}
		p.current[w.key] = name
	}
	for name, d := range p.next {
		if isHeld(d.key) || p.current[d.key] == name {
			continue
		}
		// A container may be getting this name right now, by the Names before
		// these; its device would count as held before the next plan.
		if _, there := p.current[d.key]; there && last[d.key] == name {
			continue
		}
		delete(p.next, name)
	}
	return p
}

// choose picks the name for what the device is now.
func (p planned) choose(w want, mine []string, last string, held bool) (string, error) {
	plain := plainName(w.key.ID)
	owner, taken := p.next[plain]
	plainIsFree := !taken || owner.key == w.key
	if plainIsFree && (!held || len(mine) == 0) {
		return plain, nil
	}
	same := func(name string) bool { return p.next[name].key == w.key && p.next[name].base == w.base }
	for _, name := range append([]string{last, plain}, mine...) {
		if same(name) {
			return name, nil
		}
	}
	if len(mine) >= maxDefinitions {
		return "", fmt.Errorf("device %s changed its container edits %d times while a container holds it; it can be given out again when that container is gone",
			w.key, len(mine))
	}
	for attempt := 0; ; attempt++ {
		name := derivedName(w.key.ID, w.base, attempt)
		if _, taken := p.next[name]; !taken {
			return name, nil
		}
	}
}

// spec is the content of the kind's file, of the least version that it needs.
func (d definitions) spec(k kind) (*specs.Spec, error) {
	spec := &specs.Spec{Kind: k.String()}
	for _, name := range slices.Sorted(maps.Keys(d)) {
		edits, err := d[name].edits()
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", k.qualified(name), err)
		}
		spec.Devices = append(spec.Devices, specs.Device{Name: name, ContainerEdits: *edits})
	}
	shareHooks(spec)
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return nil, fmt.Errorf("determine the CDI version of %s: %w", k, err)
	}
	spec.Version = strings.TrimPrefix(version, "v")
	return spec, nil
}

// shareHooks makes the hooks with which all devices begin the spec's own: those
// run once in a container, however many of the devices it gets. Everything else is
// merged by the runtime; hooks are not.
func shareHooks(spec *specs.Spec) {
	if len(spec.Devices) < 2 {
		return
	}
	shared := spec.Devices[0].ContainerEdits.Hooks
	for _, d := range spec.Devices[1:] {
		n := 0
		for n < min(len(shared), len(d.ContainerEdits.Hooks)) && reflect.DeepEqual(shared[n], d.ContainerEdits.Hooks[n]) {
			n++
		}
		shared = shared[:n]
	}
	for i := range spec.Devices {
		rest := spec.Devices[i].ContainerEdits
		rest.Hooks = rest.Hooks[len(shared):]
		if errors.Is(checkEdits(&rest), errNoEdits) {
			return // a device without any edits would be invalid
		}
	}
	spec.ContainerEdits.Hooks = shared
	for i := range spec.Devices {
		edits := &spec.Devices[i].ContainerEdits
		edits.Hooks = edits.Hooks[len(shared):]
	}
}
