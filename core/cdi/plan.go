package cdi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// maxDefinitions bounds the definitions of one device: a backend that changes the edits of an
// allocated device again and again must not fill the file.
const maxDefinitions = 16

// The container runtime reads all specs when one of them has changed: 70 MB cost containerd
// 6.4 s and 1.35 GB. Sizes are those of edits as compact JSON, in bytes.
const (
	// maxEdits bounds the edits of a definition.
	maxEdits = 64 << 10
	// maxSpecs bounds the edits of all definitions of a backend.
	maxSpecs = 8 << 20
)

// definitions are the edits of the definitions of one kind, as canonical text, by the device
// name in the spec. They never change.
type definitions map[string]string

// same reports whether all names mean the same.
func (d definitions) same(o definitions) bool { return maps.Equal(d, o) }

// without returns the definitions without those of the other names.
func (d definitions) without(names map[string]error) definitions {
	if len(names) == 0 {
		return d
	}
	left := maps.Clone(d)
	maps.DeleteFunc(left, func(name, _ string) bool { return names[name] != nil })
	return left
}

// size returns the size of all edits.
func (d definitions) size() int {
	size := 0
	for _, text := range d {
		size += len(text)
	}
	return size
}

// wantedDevice is a device that is to have a definition, with the canonical text of its edits.
type wantedDevice struct{ id, text string }

// planned is the result of plan.
type planned struct {
	next definitions
	// current is the name by which a new container gets the device, by device ID.
	current map[string]string
	// errs are the devices that cannot be defined.
	errs map[string]error
}

// plan carries out the table in the package comment. It decides from the definitions before,
// the names that new containers got until now, the devices that there are, and who is held,
// which is called once for those devices for which it matters. The edits of all definitions
// have room bytes at most; definitions from before stay also beyond it.
func plan(k kind, old definitions, last func(id string) string, wanted []wantedDevice, held func(inventory.Key) bool, room int) planned {
	p := planned{next: definitions{}, current: make(map[string]string, len(wanted)), errs: map[string]error{}}
	maps.Copy(p.next, old)
	names := make(map[string][]string, len(old))
	for name := range old {
		names[deviceID(name)] = append(names[deviceID(name)], name)
	}
	// A device that is allocated during the plan must not count as both.
	answers := map[string]bool{}
	isHeld := func(id string) bool {
		answer, ok := answers[id]
		if !ok {
			answer = held(k.key(id))
			answers[id] = answer
		}
		return answer
	}
	for _, w := range wanted {
		name, err := p.choose(k, w, slices.Sorted(slices.Values(names[w.id])), last(w.id), isHeld)
		if err != nil {
			p.errs[w.id] = err
			continue
		}
		p.next[name], p.current[w.id] = w.text, name
	}
	for name := range p.next {
		id := deviceID(name)
		current, listed := p.current[id]
		// A container may be getting the name that was current until now; its device counts
		// as held before the next plan.
		starting := listed && last(id) == name
		if current != name && !starting && !isHeld(id) {
			delete(p.next, name)
		}
	}
	p.fit(k, old, wanted, room)
	return p
}

// fit removes new definitions, from the last on, until the rest fits into room.
func (p *planned) fit(k kind, old definitions, wanted []wantedDevice, room int) {
	size := p.next.size()
	for _, w := range slices.Backward(wanted) {
		if size <= room {
			return
		}
		name, ok := p.current[w.id]
		if !ok || old[name] == w.text {
			continue
		}
		size -= len(w.text)
		delete(p.next, name)
		delete(p.current, w.id)
		p.errs[w.id] = fmt.Errorf("device %s is not defined for CDI: the container edits of backend %s would have more than %d bytes as JSON, "+
			"and the container runtime reads all of them whenever one changes; make the backend report fewer devices, or smaller edits", k.key(w.id), k.backend, maxSpecs)
	}
}

// choose returns the name for the device's current edits, given its names from before.
func (p planned) choose(k kind, w wantedDevice, names []string, last string, isHeld func(id string) bool) (string, error) {
	plain := plainName(w.id)
	unchanged := len(names) == 1 && p.next[plain] == w.text
	if unchanged || len(names) == 0 || !isHeld(w.id) {
		return plain, nil
	}
	for _, name := range append([]string{last, plain}, names...) {
		if p.next[name] == w.text {
			return name, nil
		}
	}
	if len(names) >= maxDefinitions {
		return "", fmt.Errorf("device %s changed its container edits %d times while a container holds it; it can be allocated again when that container is gone",
			k.key(w.id), len(names))
	}
	return derivedName(w.id, w.text), nil
}
