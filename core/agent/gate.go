package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
)

// gateWait is how long an allocation waits for a release of its device before it
// is refused. Kubelet itself sets no limit, but admits one pod after another.
const gateWait = 30 * time.Second

// work is what the agent has done to devices that nobody may hold meanwhile.
type work string

const (
	// resetting makes the devices unhealthy meanwhile, so that kubelet does not
	// choose them.
	resetting work = "reset"
	// releasing is the release after the last holder: short, and not a fault.
	releasing work = "released"
)

// gate keeps allocations and work on the same device apart: what is in use is
// not touched, what is worked on is not handed out. Both sides decide and act
// under one lock.
type gate struct {
	mu   sync.Mutex
	busy map[inventory.Key]*busy
	// closed to further work.
	closed bool
}

// busy is on every device that is worked on.
type busy struct {
	work  work
	since time.Time
	over  chan struct{}
}

func newGate() *gate { return &gate{busy: map[inventory.Key]*busy{}} }

// take calls commit, which must not block, while none of the devices is worked
// on. It waits for a release that is going on, at most gateWait, but refuses a
// device that is being reset: kubelet learns at this moment that it is unhealthy.
func (g *gate) take(ctx context.Context, keys []inventory.Key, commit func()) error {
	key, mark := g.tryTake(keys, commit)
	if mark == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	for ; mark != nil; key, mark = g.tryTake(keys, commit) {
		if mark.work == resetting {
			return fmt.Errorf("device %s is being reset since %s: create the pod again, so that it gets another one",
				key, mark.since.Format(time.TimeOnly))
		}
		select {
		case <-mark.over:
		case <-ctx.Done():
			return fmt.Errorf("device %s is being %s since %s: try again when that is over", key, mark.work, mark.since.Format(time.TimeOnly))
		}
	}
	return nil
}

func (g *gate) tryTake(keys []inventory.Key, commit func()) (inventory.Key, *busy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		if mark := g.busy[key]; mark != nil {
			return key, mark
		}
	}
	commit()
	return inventory.Key{}, nil
}

// await waits until the device may be worked on, or ctx ends.
func (g *gate) await(ctx context.Context, key inventory.Key) {
	g.mu.Lock()
	mark, closed := g.busy[key], g.closed
	g.mu.Unlock()
	if closed {
		<-ctx.Done()
		return
	}
	if mark == nil {
		return
	}
	select {
	case <-mark.over:
	case <-ctx.Done():
	}
}

// drain lets no further work begin, and waits until what is going on is over, or
// ctx ends.
func (g *gate) drain(ctx context.Context) {
	g.mu.Lock()
	g.closed = true
	marks := slices.Collect(maps.Values(g.busy))
	g.mu.Unlock()
	for _, mark := range marks {
		select {
		case <-mark.over:
		case <-ctx.Done():
			return
		}
	}
}

// begin marks the devices as worked on, unless one of them is held or worked on already:
// then it returns that one and no end. A closed gate has no end either. end must be
// called when the work is over.
func (g *gate) begin(what work, keys []inventory.Key, held func(inventory.Key) bool) (end func(), blocker inventory.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		if g.closed || g.busy[key] != nil || held(key) {
			return nil, key
		}
	}
	mark := &busy{work: what, since: time.Now(), over: make(chan struct{})}
	for _, key := range keys {
		g.busy[key] = mark
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, key := range keys {
			delete(g.busy, key)
		}
		close(mark.over)
	}, inventory.Key{}
}

// resetting returns the faults of devices that are being reset; nil if there are none.
func (g *gate) resetting() map[inventory.Key]health.Fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	var faults map[inventory.Key]health.Fault
	for key, mark := range g.busy {
		if mark.work == resetting {
			if faults == nil {
				faults = map[inventory.Key]health.Fault{}
			}
			faults[key] = health.Fault{
				Code: "resetting", Message: "the device, or one of its reset group, is being reset",
				Recovery: inventory.RecoverySelf, Since: mark.since,
			}
		}
	}
	return faults
}
