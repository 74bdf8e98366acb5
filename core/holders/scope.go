package holders

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/wake"
)

// ResetScope names what a device loses its state with: a reset of its group, or of one of
// its parents.
type ResetScope struct {
	// Group is what it is reset together with; "" for none.
	Group string
	// Parents are the IDs of the devices that it is a part of, the nearest first.
	Parents []string
}

func (s ResetScope) equal(other ResetScope) bool {
	return s.Group == other.Group && slices.Equal(s.Parents, other.Parents)
}

func (s ResetScope) empty() bool { return s.Group == "" && len(s.Parents) == 0 }

// SetResetScopes records the scopes of held devices, as far as scope returns them: a reset
// must not reach a device that is held, also if the device was removed and the agent
// restarted since. scope must not call the book.
func (b *Book) SetResetScopes(scope func(inventory.Key) (ResetScope, bool)) {
	changed := false
	b.mu.Lock()
	for _, a := range b.allocations {
		if s, ok := scope(a.device); ok && !s.equal(a.reset) {
			a.reset, changed = s, true
		}
	}
	b.mu.Unlock()
	if changed {
		wake.Send(b.file.outdated)
	}
}

// ResetScopes returns the scopes of held devices that are not empty.
func (b *Book) ResetScopes() map[inventory.Key]ResetScope {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[inventory.Key]ResetScope{}
	for _, a := range b.allocations {
		if !a.reset.empty() {
			all[a.device] = a.reset
		}
	}
	return all
}
