package cdi

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// isSettled reports whether the devices are to have exactly the definitions that the latest
// Publish made. Health changes often, and the definitions of 4,096 devices seldom.
func (s *Store) isSettled(devices []*inventory.Device) bool {
	if s.settled == nil || len(devices) != len(s.settled) || len(s.conflicts)+len(s.contested) > 0 {
		return false
	}
	for _, f := range s.files {
		if !f.intact() || f.outdated {
			return false
		}
	}
	for i, d := range devices {
		before := s.settled[i]
		if d == before {
			continue
		}
		e := encode(d)
		if d.Key != before.Key || d.Class != before.Class || e.err != nil || e.text != s.encoded[before].text {
			return false
		}
		delete(s.encoded, before)
		s.encoded[d], s.settled[i] = e, d
	}
	return true
}

// allPlain reports whether each of the devices has its plain name, and nothing else is defined.
func (s *Store) allPlain(devices []*inventory.Device) bool {
	defined := 0
	for _, f := range s.files {
		defined += len(f.defs)
	}
	return defined == len(devices) && !slices.ContainsFunc(devices, func(d *inventory.Device) bool {
		n := s.names.names[d.Key]
		return n.err != nil || n.qualified != (kind{d.Backend, d.Class}).qualified(plainName(d.ID))
	})
}
