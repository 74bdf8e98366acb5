package holders

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// Ended is a device that a holder had until it ended.
type Ended struct {
	// Holder is the holder's ID: of what one Allocate gave to one container. It is the
	// same for every restart of the container, also over a restart of the agent, and
	// never used again.
	Holder string
	Key    inventory.Key
}

func compareEnded(a, b Ended) int {
	return cmp.Or(a.Key.Compare(b.Key), strings.Compare(a.Holder, b.Holder))
}

// maxEnded bounds the devices of holders that ended which were not settled. Only a
// backend that does not release for days lets so many gather.
const maxEnded = 4096

// newHolder returns an ID that no holder has had: 26 letters and digits.
func newHolder() string { return rand.Text() }

// end records that the holder of h has lost a unit of the device; with its last one the
// device is no longer its. The caller holds b.mu.
func (b *Book) end(h *hold) {
	for _, other := range b.byKey[h.key] {
		if other.holderID == h.holderID {
			return
		}
	}
	if len(b.unsettled) >= maxEnded {
		b.log.Warn("a holder ended whose device is not released: too many earlier releases have not succeeded", "device", h.key.String())
		return
	}
	b.unsettled[Ended{h.holderID, h.key}] = false
	signal(b.ended)
}

// Ended sends devices whose holder ended, sorted, while Run runs. Another holder may
// have the device; see [Book.Held]. Each is sent again after a restart until
// [Book.Settled]: at least once, possibly late. One of which it is not known yet
// whether another holder has it is sent when that is known.
func (b *Book) Ended() <-chan []Ended { return b.endings }

// Settled records that what had to follow the end of these is done.
func (b *Book) Settled(all ...Ended) {
	b.mu.Lock()
	for _, e := range all {
		delete(b.unsettled, e)
	}
	b.mu.Unlock()
	signal(b.dirty)
}

// unsent returns what Ended has not sent yet, and marks it as sent.
func (b *Book) unsent() []Ended {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Ended
	for e, sent := range b.unsettled {
		if !sent && !b.suspects[e.Key] && !b.unresolved[e.Key.ID] {
			b.unsettled[e] = true
			all = append(all, e)
		}
	}
	slices.SortFunc(all, compareEnded)
	return all
}
