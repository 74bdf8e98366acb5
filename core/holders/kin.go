package holders

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// Kin is in whose reset a device loses its state.
type Kin struct {
	// ResetGroup is what it is reset together with; "" for none.
	ResetGroup string
	// Parents are the IDs of the devices that it is a part of, the nearest first.
	Parents []string
}

func (k Kin) equal(other Kin) bool {
	return k.ResetGroup == other.ResetGroup && slices.Equal(k.Parents, other.Parents)
}

func (k Kin) none() bool { return k.ResetGroup == "" && len(k.Parents) == 0 }

// Related notes the kin of the devices that are held, as far as they are listed:
// whoever resets a device must know who loses its state with it also when that one is
// away and the agent was restarted. kin must not call the book.
func (b *Book) Related(kin func(inventory.Key) (of Kin, listed bool)) {
	changed := false
	b.mu.Lock()
	for _, h := range b.holds {
		if of, listed := kin(h.key); listed && !of.equal(h.kin) {
			h.kin, changed = of, true
		}
	}
	b.mu.Unlock()
	if changed {
		signal(b.dirty)
	}
}

// Kin is what Related noted of devices that are held, without those that have none.
func (b *Book) Kin() map[inventory.Key]Kin {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[inventory.Key]Kin{}
	for _, h := range b.holds {
		if !h.kin.none() {
			all[h.key] = h.kin
		}
	}
	return all
}
