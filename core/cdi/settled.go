package cdi

import (
	"maps"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// settled is a Publish that left nothing to do: each device has the one definition
// that it needs, under its plain name and on disk, and nobody else defines it. Most rounds
// are about health, and end here.
type settled struct {
	// devices are those that were published; nobody changes the list.
	devices []*inventory.Device
	names   *Names
}

// settle takes note of what a Publish without failures led to. It is not settled
// while there are definitions besides those of the devices, or under other names:
// they come and go with who holds the device.
func (s *Store) settle(devices []*inventory.Device, names *Names) {
	definitions := 0
	for _, f := range s.files {
		definitions += len(f.defs)
	}
	if definitions != len(names.names) || len(devices) != len(names.names) {
		return
	}
	for key, n := range names.names {
		if n.err != nil || !strings.HasSuffix(n.qualified, "="+plainName(key.ID)) {
			return
		}
	}
	s.settled = &settled{devices: devices, names: names}
}

// renew takes the devices in place of those that were published, which have the same
// edits and would be kept for them.
func (p *settled) renew(devices []*inventory.Device) {
	for i, d := range devices {
		if d != p.devices[i] {
			p.names.names[d.Key].device = d
		}
	}
	p.devices = devices
}

// holds reports whether publishing these devices would change nothing: they are the
// same, in the same order, with the same edits, and nobody has touched the directory.
func (p *settled) holds(s *Store, devices []*inventory.Device) bool {
	if p == nil || len(devices) != len(p.devices) || !s.ownsAll() {
		return false
	}
	for i, d := range devices {
		if was := p.devices[i]; was != d && (was.Key != d.Key || was.Class != d.Class || !inventory.SameEdits(was.Edits, d.Edits)) {
			return false
		}
	}
	for _, f := range s.files {
		if f.unsynced || !f.intact() || stampOf(f.path()) != f.seen {
			return false
		}
	}
	known := make(map[string]stamp, len(s.foreign))
	for name, f := range s.foreign {
		known[name] = f.stamp
	}
	stamps, ok := s.foreignStamps()
	return ok && maps.Equal(known, stamps)
}
