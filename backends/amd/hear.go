package amd

import (
	"time"

	"github.com/accelmux/accelmux/backends/amd/smi"
)

// heard are the kinds of events that say something of a card.
var heardKinds = []smi.Kind{smi.ThermalThrottle, smi.PreReset, smi.PostReset}

// hearing is the listening to the events of one card. KFD gives them of each of its
// nodes; those that are listened to come at all of a card's, so the first does.
type hearing struct {
	number uint32 // KFD's, of the node
	// stream is nil until it is open, and after it has ended.
	stream *smi.Stream
	// retry is when one that failed or ended is opened again.
	retry time.Time
	// told says that it was said that there are no events.
	told bool
	// over says that the stream is not wanted any more.
	over bool
}

// close ends it. A stream that is being opened is closed when it is open.
func (h *hearing) close() {
	h.over = true
	if h.stream != nil {
		_ = h.stream.Close() // only read: nothing can be lost
	}
}

// listen listens to the cards that there are, and to no others.
func (l *loop) listen(now time.Time) {
	for id, h := range l.hearings {
		known := l.roster.cards[id]
		over := known == nil || !l.cfg.health.Events
		if !over && known.absent == nil {
			over = known.gpu.Partitions[0].KFDID != h.number
		} else if !over {
			over = !h.retry.IsZero() // it is opened when the card is back
		}
		if over {
			h.close()
			delete(l.hearings, id)
		}
	}
	if !l.cfg.health.Events {
		return
	}
	for id, known := range l.roster.cards {
		number := known.gpu.Partitions[0].KFDID
		before := l.hearings[id]
		if known.absent != nil || number == 0 || before != nil && (before.retry.IsZero() || now.Before(before.retry)) {
			continue
		}
		h := &hearing{number: number, told: before != nil && before.told}
		l.hearings[id] = h
		go l.hear(id, h, l.backend.seams.events(l.cfg.host.Devfs))
	}
}

// hear hands the events of a card to the loop until they end.
func (l *loop) hear(id string, h *hearing, source smi.Source) {
	stream, err := smi.Listen(source, h.number, heardKinds...)
	if err != nil {
		l.post(func() {
			if !h.told {
				l.backend.log.Info("KFD does not tell of resets and heat of a GPU; its counters are read as ever", "device", id, "error", err)
			}
			h.told, h.retry = true, time.Now().Add(l.cfg.rescan)
		})
		return
	}
	defer func() { _ = stream.Close() }() // only read: nothing can be lost
	opened := func() {
		if h.stream = stream; h.over {
			h.close()
		}
	}
	if !l.post(opened) {
		return
	}
	for event := range stream.Events() {
		if !l.post(func() { l.heard(id, h, event) }) {
			return
		}
	}
	l.post(func() {
		h.stream, h.retry = nil, time.Now().Add(retryFirst)
		l.change() // the GPU or the driver went
	})
}

// heard takes in an event of a card.
func (l *loop) heard(id string, h *hearing, e smi.Event) {
	known := l.roster.cards[id]
	if known == nil || h.over {
		return
	}
	now := time.Now()
	switch e.Kind {
	case smi.PreReset:
		l.backend.log.Warn("a GPU is being reset", "device", id, "reason", e.Reason)
		known.resetting, known.resetBy, known.fresh = now, now.Add(resetLimit), false
	case smi.PostReset:
		l.backend.log.Info("a GPU was reset", "device", id)
		known.renew(now)
		l.change()
	case smi.ThermalThrottle:
		if l.cfg.health.Thermal == report && now.Sub(known.hot) >= cools {
			l.backend.log.Warn("heat slows a GPU down", "device", id, "times", e.Count)
		}
		known.hot = now
	}
}
