package cdi

import (
	"cmp"
	"maps"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// Definition is what one CDI name means.
type Definition struct {
	// Name is fully qualified.
	Name   string
	Device inventory.Key
	// Edits are the whole of what a container gets.
	Edits specs.ContainerEdits
}

// Definitions are all that are on disk, sorted by name: those of the devices
// that are there, and those that are kept for containers which hold them.
func (s *Store) Definitions() []Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Definition
	for k, f := range s.files {
		for device, d := range f.defs {
			if edits, err := d.edits(); err == nil {
				out = append(out, Definition{Name: k.qualified(device), Device: d.key, Edits: *edits})
			}
		}
	}
	slices.SortFunc(out, func(a, b Definition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// devices returns the devices of a backend that have a definition, sorted, each once.
func (s *Store) devices(backend string) []inventory.Key {
	all := map[inventory.Key]struct{}{}
	for k, f := range s.files {
		if k.backend != backend {
			continue
		}
		for _, d := range f.defs {
			all[d.key] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(all), inventory.Key.Compare)
}

// Notes are what an operator must know of the directory, a sentence each.
func (s *Store) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.contestedNotes(), s.uncheckedNotes(), s.notes)
}
