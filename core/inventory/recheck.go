package inventory

import (
	"maps"
	"reflect"
	"slices"
)

// checkAgain sets what the latest report gives now; without one nothing changes. The caller holds src.mu.
func (s *Store) checkAgain(src *source, b *Backend) {
	if src.wire == nil {
		return
	}
	b.take(checkReport(newParser(src.wireDesc, src.policy), src.name, src.wire, s.known(src), nil, s.now()))
}

// take sets what a report gives.
func (b *Backend) take(r checkedReport) {
	b.Devices, b.CounterSets, b.NodeLabels, b.Problems = r.devices, r.sets, r.labels, r.problems
}

// sameReport reports whether both have the same of their reports.
func (b *Backend) sameReport(o *Backend) bool {
	return slices.Equal(b.Devices, o.Devices) && reflect.DeepEqual(b.CounterSets, o.CounterSets) &&
		slices.Equal(b.NodeLabels, o.NodeLabels) && slices.Equal(b.Problems, o.Problems)
}

// Recheck checks all devices again, because the host's files may have changed since they were
// reported: a link, the number of a node, a hook program.
func (s *Store) Recheck() {
	s.mu.Lock()
	sources := maps.Clone(s.sources)
	s.mu.Unlock()
	for _, src := range sources {
		src.mu.Lock()
		if src.backend != nil && !src.removed {
			next := *src.backend
			if s.checkAgain(src, &next); !next.sameReport(src.backend) {
				src.stored = nil
				s.publish(src, &next, true)
			}
		}
		src.mu.Unlock()
	}
}

// OnHost checks the paths in edits of a device of a backend, which were accepted earlier, against the
// configuration and the host's files as they are now, and returns the edits with the paths of nodes and
// mounts without links. The error is for the operator.
// What it found on the host counts for its further calls, so it is for one round of checks, and
// not for concurrent use.
type OnHost func(backend string, e Edits) (Edits, error)

// Unchecked is an OnHost that accepts all edits.
func Unchecked(_ string, e Edits) (Edits, error) { return e, nil }

// OnHost returns a check by the policies in force. Edits of a backend that is not configured are not
// checked. Before a backend is described, what its own process may write is not known.
func (s *Store) OnHost() OnHost {
	checks := map[string]*hostCheck{}
	return func(backend string, e Edits) (Edits, error) {
		if checks[backend] == nil {
			s.mu.Lock()
			p, configured := s.policies[backend]
			if b := s.published[backend]; b != nil {
				p = p.With(b.Description)
			}
			s.mu.Unlock()
			if !configured {
				return e, nil
			}
			checks[backend] = newHostCheck(p)
			checks[backend].earlier = true
		}
		if err := checks[backend].policy.stillAllows(e); err != nil {
			return Edits{}, err
		}
		return checks[backend].edits(e)
	}
}
