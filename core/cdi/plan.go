package cdi

import (
	"fmt"
	"maps"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// maxDefinitions bounds how many definitions one device may have at a time: a
// backend that changes the edits of a held device again and again must not fill
// the file.
const maxDefinitions = 16

// The container runtime reads all specs when one of them has changed: 70 MB cost containerd
// 6.4 s and 1.35 GB. Sizes are those of edits as compact JSON, in bytes.
const (
	// maxEdits bounds the edits of a definition.
	maxEdits = 64 << 10
	// maxSpecs bounds the edits of all definitions of a backend.
	maxSpecs = 8 << 20
)

// definition is what one CDI name means.
type definition struct {
	// key is the device that it is of; of a holder's own definition, one of its devices.
	key  inventory.Key
	base content
}

// same reports whether both mean the same.
func (d *definition) same(o *definition) bool {
	return d == o || d != nil && o != nil && d.key == o.key && d.base.sum == o.base.sum
}

// edits are the whole of what a container gets.
func (d *definition) edits() (*specs.ContainerEdits, error) { return d.base.of.edits() }

// definitions are those of one kind, by the device name in the spec. A definition is
// in several of them and never changes, but for who has its edits.
type definitions map[string]*definition

// same reports whether all names mean the same.
func (d definitions) same(o definitions) bool { return maps.EqualFunc(d, o, (*definition).same) }

// size is the size of all edits.
func (d definitions) size() int {
	size := 0
	for _, definition := range d {
		size += definition.base.size
	}
	return size
}

// planned is what the disk is to say.
type planned struct {
	next definitions
	// current is the name by which a new container gets the device.
	current map[inventory.Key]string
	// errs are the devices that cannot be defined.
	errs map[inventory.Key]error
}

// plan decides from the definitions that there are, the names that were given out last,
// the devices that are there, and who is held, which is asked of those only for which it
// matters. It is where the table in the package comment is carried out. The definitions have
// room bytes of edits at most, but for those that there are already.
func plan(old definitions, last func(inventory.Key) string, wanted []*given, held func(inventory.Key) bool, room int) planned {
	p := planned{next: maps.Clone(old), current: make(map[inventory.Key]string, len(wanted)), errs: map[inventory.Key]error{}}
	if p.next == nil {
		p.next = make(definitions, len(wanted))
	}
	derived := map[inventory.Key][]string{}
	for name, d := range old {
		if name != plainName(d.key.ID) {
			derived[d.key] = append(derived[d.key], name)
		}
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
		key := w.device.Key
		mine := derived[key]
		if plain := plainName(key.ID); old[plain] != nil && old[plain].key == key {
			mine = append(mine, plain)
		}
		slices.Sort(mine)
		name, err := p.choose(w, mine, last(key), isHeld)
		if err != nil {
			p.errs[key] = err
			continue
		}
		if d := p.next[name]; d == nil || d.key != key || d.base.sum != w.sum {
			p.next[name] = &definition{key: key, base: content{w.sum, w.size, w}}
		} else {
			d.base.of = w // and not a device that was
		}
		p.current[key] = name
	}
	for name, d := range p.next {
		if p.current[d.key] == name || isHeld(d.key) {
			continue
		}
		// A container may be getting this name right now, by the Names before
		// these; its device would count as held before the next plan.
		if _, there := p.current[d.key]; there && last(d.key) == name {
			continue
		}
		delete(p.next, name)
	}
	p.fit(old, wanted, room)
	return p
}

// fit leaves out new definitions, from the last on, until the rest fits into room.
func (p *planned) fit(old definitions, wanted []*given, room int) {
	size := p.next.size()
	for _, w := range slices.Backward(wanted) {
		if size <= room {
			return
		}
		key := w.device.Key
		name := p.current[key]
		d := p.next[name]
		if d == nil || d.same(old[name]) {
			continue
		}
		size -= d.base.size
		delete(p.next, name)
		delete(p.current, key)
		p.errs[key] = fmt.Errorf("device %s is not defined for CDI: the container edits of backend %s would have more than %d bytes as JSON, "+
			"and the container runtime reads all of them whenever one changes; make the backend report fewer devices, or smaller edits", key, key.Backend, maxSpecs)
	}
}

// choose picks the name for what the device is now.
func (p planned) choose(w *given, mine []string, last string, isHeld func(inventory.Key) bool) (string, error) {
	key := w.device.Key
	plain := plainName(key.ID)
	same := func(name string) bool {
		d := p.next[name]
		return d != nil && d.key == key && d.base.sum == w.sum
	}
	if len(mine) == 1 && mine[0] == plain && same(plain) {
		return plain, nil // as nearly always, and whoever holds it
	}
	owner := p.next[plain]
	plainIsFree := owner == nil || owner.key == key
	if plainIsFree && (len(mine) == 0 || !isHeld(key)) {
		return plain, nil
	}
	for _, name := range append([]string{last, plain}, mine...) {
		if same(name) {
			return name, nil
		}
	}
	if len(mine) >= maxDefinitions {
		return "", fmt.Errorf("device %s changed its container edits %d times while a container holds it; it can be given out again when that container is gone",
			key, len(mine))
	}
	for attempt := 0; ; attempt++ {
		name := derivedName(key.ID, w.sum, attempt)
		if _, taken := p.next[name]; !taken {
			return name, nil
		}
	}
}
