package amd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/reset"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// All that is known of the GPUs belongs to the loop. A call that needs it has the
// loop run a function between two of its rounds, which takes away copies.

// targets are what a call is for.
type targets struct {
	sdk.Targets
	cfg *config
	// devices are those asked for.
	devices []target
	// group are all GPUs that a reset of one of them takes along.
	group []gpu.GPU
}

// target is a device: a partition and its GPU.
type target struct {
	gpu  gpu.GPU
	part gpu.Partition
}

// find says what there is to the devices.
func (b *Backend) find(ctx context.Context, ids []string) (*targets, error) {
	return sdk.InLoop(ctx, b.asks, func(l *loop) *targets { return l.find(ids) })
}

func (l *loop) find(ids []string) *targets {
	t := &targets{cfg: l.cfg}
	groups, seen := map[string]bool{}, map[string]bool{}
	for _, known := range l.roster.sorted() {
		for _, p := range known.gpu.Partitions {
			if slices.Contains(ids, p.ID) {
				t.devices = append(t.devices, target{known.gpu, p})
				groups[resetGroup(known.gpu)], seen[p.ID] = true, true
			}
		}
	}
	for _, known := range l.roster.sorted() {
		if !groups[resetGroup(known.gpu)] {
			continue
		}
		t.group = append(t.group, known.gpu)
		for _, p := range known.gpu.Partitions {
			if !seen[p.ID] {
				t.Others = append(t.Others, p.ID)
			}
		}
	}
	t.Unknown = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return seen[id] })
	return t
}

// ids are those of the group's GPUs.
func (t *targets) ids() []string {
	all := make([]string, len(t.group))
	for i, g := range t.group {
		all[i] = g.ID
	}
	return all
}

func (t *targets) toReset() []reset.GPU {
	all := make([]reset.GPU, len(t.group))
	for i, g := range t.group {
		all[i] = reset.GPU{ID: g.ID, PCIBusID: g.PCI.Address.String(), Card: drm.None}
		for _, p := range g.Partitions {
			if p.Index == 0 {
				all[i].Card = p.Card
			}
			all[i].Nodes = append(all[i].Nodes, nodesOf(p)...)
			all[i].KFDIDs = append(all[i].KFDIDs, p.KFDID)
		}
	}
	return all
}

// found is what a look found, as it was published, by the ID of the device.
type found map[string]*sdk.Device

// sound is an error unless the device is as it should be, or, after a reset, there is
// evidence that it is.
func (f found) sound(id string, reset bool) error {
	d := f[id]
	h := d.GetHealth()
	switch {
	case d == nil:
		return errors.New("the device is not listed any more")
	case h.GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY:
		return errors.New(h.GetMessage())
	case reset && !h.GetRecovered():
		return errors.New("there is no evidence that the GPU is sound")
	}
	return nil
}

// waiter waits for a look, and for readings of the counters of GPUs, that began after
// since.
type waiter struct {
	ctx   context.Context
	since time.Time
	gpus  []string
	// reset says that the GPUs were reset, and must answer.
	reset bool
	found chan found
}

// lookNow has the loop look at the GPUs, and says what it found. After a reset it
// waits until all of them answer.
func (b *Backend) lookNow(ctx context.Context, gpus []string, reset bool) (found, error) {
	w := &waiter{ctx: ctx, gpus: gpus, reset: reset, found: make(chan found, 1)}
	_, err := sdk.InLoop(ctx, b.asks, func(l *loop) bool {
		w.since = time.Now()
		l.wanted = w.since
		for _, known := range l.records(gpus) {
			if reset {
				known.renew(w.since)
			}
			known.counts.due = w.since
		}
		l.waiters = append(l.waiters, w)
		return true
	})
	if err != nil {
		return nil, err
	}
	select {
	case f := <-w.found:
		return f, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the GPUs to answer: %w", ctx.Err())
	}
}

// records are those of the GPUs that are known.
func (l *loop) records(gpus []string) []*record {
	var all []*record
	for _, id := range gpus {
		if known := l.roster.cards[id]; known != nil {
			all = append(all, known)
		}
	}
	return all
}

// answer tells those who wait for a look what was published.
func (l *loop) answer() {
	if len(l.waiters) == 0 {
		return
	}
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		if w.ctx.Err() != nil {
			return true // gone
		}
		if l.last.began.Before(w.since) {
			return false
		}
		for _, known := range l.records(w.gpus) {
			if !w.answered(known) {
				l.again(w, known)
				return false
			}
		}
		result := found{}
		devices, _ := l.listing().devices(l.roster)
		for _, d := range devices {
			result[d.GetId()] = d
		}
		w.found <- result
		return true
	})
}

// answered reports whether all is known of a card that the waiter waits for.
func (w *waiter) answered(known *record) bool {
	if !w.reset && known.absent != nil {
		return true // and that is the answer
	}
	n := known.counts
	if !w.reset {
		return !n.at.Before(w.since)
	}
	return known.absent == nil && known.resetting.IsZero() && !n.at.Before(w.since) && n.rebase.IsZero() && !n.last.Busy
}

// again has the loop look once more, a little later, at a card that was reset and does
// not answer yet.
func (l *loop) again(w *waiter, known *record) {
	next := time.Now().Add(retryFirst)
	if known.absent != nil && l.wanted.IsZero() {
		l.wanted = next
	}
	if !known.counts.at.Before(w.since) && known.counts.due.After(next) {
		known.counts.due = next
	}
}
