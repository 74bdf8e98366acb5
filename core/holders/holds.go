package holders

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// Hold is a unit that a container has, and the device behind it.
type Hold struct {
	Key            inventory.Key
	Resource, Unit string
	// Since is when it was allocated, or first seen in a list.
	Since time.Time
}

// Holds are all that is held, by device; those of one device the oldest first.
func (b *Book) Holds() map[inventory.Key][]Hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	holds := make(map[inventory.Key][]Hold, len(b.byKey))
	for key := range b.byKey {
		holds[key] = b.holdsOf(key)
	}
	return holds
}

// holdsOf are the holds of one device, the oldest first; nil if it has none. The caller
// holds b.mu.
func (b *Book) holdsOf(key inventory.Key) []Hold {
	var holds []Hold
	for u, h := range b.byKey[key] {
		holds = append(holds, Hold{Key: key, Resource: u.resource, Unit: u.id, Since: h.since})
	}
	slices.SortFunc(holds, compareHolds)
	return holds
}

// Given is what one holder was given of a resource.
type Given struct {
	Resource string
	// Units are sorted.
	Units []string
}

// Given returns what each of the holders was given that have the device.
func (b *Book) Given(key inventory.Key) []Given {
	b.mu.Lock()
	defer b.mu.Unlock()
	holders := map[string]*Given{}
	for u, h := range b.byKey[key] {
		holders[h.holderID] = &Given{Resource: u.resource}
	}
	for u, h := range b.holds {
		if g := holders[h.holderID]; g != nil {
			g.Units = append(g.Units, u.id)
		}
	}
	all := make([]Given, 0, len(holders))
	for _, g := range holders {
		slices.Sort(g.Units)
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Given) int { return slices.Compare(a.Units, b.Units) })
	return all
}

func compareHolds(a, b Hold) int {
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Unit, b.Unit))
}

// Holders returns the containers that hold the device, sorted. A shared device has several.
func (b *Book) Holders(key inventory.Key) []Holder {
	b.mu.Lock()
	defer b.mu.Unlock()
	var holders []Holder
	for u, h := range b.byKey[key] {
		if len(h.holders) == 0 {
			holders = append(holders, Holder{Resource: u.resource, Unit: u.id})
		}
		for _, c := range h.holders {
			holders = append(holders, Holder{
				Namespace: c.Namespace, Pod: c.Pod, Container: c.Container, Resource: u.resource, Unit: u.id,
				Ending: !h.missing.IsZero(),
			})
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int {
		return cmp.Or(
			strings.Compare(a.Resource, b.Resource), strings.Compare(a.Unit, b.Unit), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Pod, b.Pod), strings.Compare(a.Container, b.Container))
	})
	return holders
}

// Sole returns the container that holds the device, if there is exactly one and kubelet has
// named it, without the unit's ID. It is a mere look-up, so that it can be called for every
// device.
func (b *Book) Sole(key inventory.Key) (Holder, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sole Holder
	for _, h := range b.byKey[key] {
		if len(h.holders) == 0 {
			return Holder{}, false
		}
		for _, c := range h.holders {
			next := Holder{Namespace: c.Namespace, Pod: c.Pod, Container: c.Container}
			if sole.Pod != "" && (sole.Namespace != next.Namespace || sole.Pod != next.Pod || sole.Container != next.Container) {
				return Holder{}, false
			}
			sole = next
		}
	}
	return sole, sole.Pod != ""
}
