package events

import (
	"slices"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// maxChanges bounds a history: about 200 kB with the longest messages.
const maxChanges = 100

// Change is what happened to a device, or in one round to several of a backend in the same way.
type Change struct {
	At time.Time
	// Device is the first of them, and Others is how many more there are.
	Device inventory.Key
	Others int
	// What is "unhealthy", "healthy again", "found" or "removed".
	What string
	// Code, Message and Recovery are those of the gravest fault of an unhealthy device.
	Code, Message string
	Recovery      inventory.Recovery
}

// history has the latest changes. It is safe for concurrent use.
type history struct {
	mu  sync.Mutex
	all []Change // the oldest first
}

// add adds a change, or counts it as one more of the latest, if only the device differs.
func (h *history) add(c Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.all); n > 0 {
		last := &h.all[n-1]
		if last.At.Equal(c.At) && last.Device.Backend == c.Device.Backend && last.What == c.What && last.Code == c.Code {
			last.Others++
			return
		}
	}
	if len(h.all) == maxChanges {
		h.all = slices.Delete(h.all, 0, 1)
	}
	h.all = append(h.all, c)
}

// Changes returns the latest changes of devices since the agent's start, the newest first, at most
// 100. It is safe for concurrent use.
func (j *Journal) Changes() []Change {
	j.history.mu.Lock()
	defer j.history.mu.Unlock()
	newest := slices.Clone(j.history.all)
	slices.Reverse(newest)
	return newest
}
