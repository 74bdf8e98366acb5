package inventory

import (
	"slices"
	"time"
)

// Restore sets what an earlier run of the agent knew of backends: their devices, counter sets and labels. A backend has none
// of that before its first report, and then what it could not look at.
func (s *Store) Restore(earlier []*Backend) {
	for _, b := range earlier {
		s.mu.Lock()
		s.earlier[b.Name] = b
		s.mu.Unlock()
		src := s.source(b.Name, false)
		if src == nil {
			continue
		}
		src.mu.Lock()
		switch { // what it did while another agent had the node
		case src.removed:
		case src.backend != nil:
			next := *src.backend
			s.checkAgain(src, &next)
			s.publish(src, &next, !next.sameReport(src.backend))
		case src.lost:
			s.holdOver(src, b)
		}
		src.mu.Unlock()
	}
}

// holdOver publishes what is known of a backend that has not reported in this run of the agent, as lost. The caller holds
// src.mu.
func (s *Store) holdOver(src *source, known *Backend) {
	next := *known
	next.ReceivedAt, next.LostAt = time.Time{}, s.now()
	s.publish(src, &next, true)
}

// known returns the backend as it was published last, and what the earlier run knew beside that. The caller holds src.mu.
func (s *Store) known(src *source) *Backend {
	s.mu.Lock()
	earlier := s.earlier[src.name]
	s.mu.Unlock()
	switch {
	case earlier == nil && src.backend == nil:
		return &Backend{}
	case src.backend == nil:
		return earlier
	case earlier == nil:
		return src.backend
	}
	known, listed := *src.backend, byID(src.backend.Devices)
	known.Devices = slices.Clone(known.Devices)
	for _, d := range earlier.Devices {
		if listed[d.ID] == nil {
			known.Devices = append(known.Devices, d)
		}
	}
	known.CounterSets = slices.Clone(known.CounterSets)
	for _, set := range earlier.CounterSets {
		if !slices.ContainsFunc(known.CounterSets, func(o CounterSet) bool { return o.Name == set.Name }) {
			known.CounterSets = append(known.CounterSets, set)
		}
	}
	known.CounterSets, known.NodeLabels = sortSets(known.CounterSets), slices.Concat(known.NodeLabels, earlier.NodeLabels)
	return &known
}
