package holders

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/wake"
)

// Ended is a device that a holder had until it ended.
type Ended struct {
	Holder Ref
	Device inventory.Key
}

func compareEnded(a, b Ended) int {
	return cmp.Or(a.Device.Compare(b.Device), strings.Compare(a.Holder.ID, b.Holder.ID))
}

// maxEnded bounds the devices of holders that ended which were not released. Only a
// backend that does not release for days lets so many gather.
const maxEnded = 4096

// endedDevices are the devices of holders that ended, until Released.
type endedDevices struct {
	// sent has each of them, and whether it was sent in this run. It belongs to Book.mu.
	sent map[Ended]bool
	// added: there is one to send.
	added chan struct{}
	out   chan []Ended
	// released is closed by the next Released. It belongs to Book.mu.
	released chan struct{}
}

// end records that a holder has lost a unit of a device. When it loses its last unit of the
// device, the device is added to Ended. The caller holds b.mu.
func (b *Book) end(a *allocation) {
	b.requireReset(a.device)
	for _, other := range b.byDevice[a.device] {
		if other.holder == a.holder {
			return
		}
	}
	if len(b.ended.sent) >= maxEnded {
		b.log.Warn("a holder ended whose device is not released: too many earlier releases have not succeeded",
			"backend", a.device.Backend, "device", a.device.ID)
		return
	}
	b.ended.sent[Ended{a.holder.Ref, a.device}] = false
	wake.Send(b.ended.added)
}

// Ended sends devices whose holder ended, sorted, while Run runs. Another holder may have
// the device; [Book.BeginRelease] returns whether one has. Each is sent again after a
// restart until [Book.Released]: at least once, possibly late. A device of which it is not
// known yet whether another holder has it is sent when that is known.
func (b *Book) Ended() <-chan []Ended { return b.ended.out }

// Released records that these devices were released: Ended does not send them again.
func (b *Book) Released(all ...Ended) {
	b.mu.Lock()
	for _, e := range all {
		delete(b.ended.sent, e)
		if b.due[e.Device] != nil {
			wake.Send(b.changed)
		}
	}
	close(b.ended.released)
	b.ended.released = make(chan struct{})
	b.mu.Unlock()
	wake.Send(b.file.outdated)
}

// reuseLimit is how long TakeClaim waits for the releases of the claim's earlier use, and for resets after use. Kubelet calls
// again, and the driver's other claims wait meanwhile.
const reuseLimit = 10 * time.Second

// awaitReleased waits until none of the devices that match is to be released: a release after the next
// preparation for the same holder would undo that, and a device that is to be made needs the room of one
// that is released. It waits at most reuseLimit.
func (b *Book) awaitReleased(ctx context.Context, match func(Ended) bool) error {
	ctx, cancel := context.WithTimeout(ctx, reuseLimit)
	defer cancel()
	for {
		b.mu.Lock()
		pending := slices.SortedFunc(maps.Keys(b.ended.sent), compareEnded)
		released := b.ended.released
		b.mu.Unlock()
		i := slices.IndexFunc(pending, match)
		if i < 0 {
			return nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return fmt.Errorf("device %s was not released after its last use: %w; the release and the preparation are tried again", pending[i].Device, context.Cause(ctx))
		}
	}
}

// unsent returns what Ended has not sent yet, and marks it as sent.
func (b *Book) unsent() []Ended {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Ended
	for e, sent := range b.ended.sent {
		if !sent && !b.unconfirmed.has(e.Device) {
			b.ended.sent[e] = true
			all = append(all, e)
		}
	}
	slices.SortFunc(all, compareEnded)
	return all
}
