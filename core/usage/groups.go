package usage

import (
	"github.com/accelmux/accelmux/core/inventory"
)

// Grouped notes the reset groups of the devices that are held, as far as they are
// listed, "" for none: whoever resets a group must know who belongs to it also when a
// device is away and the agent was restarted. The group must not call the book.
func (b *Book) Grouped(group func(inventory.Key) (name string, listed bool)) {
	changed := false
	b.mu.Lock()
	for _, h := range b.holds {
		if name, listed := group(h.key); listed && name != h.group {
			h.group, changed = name, true
		}
	}
	b.mu.Unlock()
	if changed {
		signal(b.dirty)
	}
}

// Groups are the groups noted by Grouped of devices that are held, without those that
// are in none.
func (b *Book) Groups() map[inventory.Key]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	groups := map[inventory.Key]string{}
	for _, h := range b.holds {
		if h.group != "" {
			groups[h.key] = h.group
		}
	}
	return groups
}
