package health

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// View has the verdicts on one snapshot. It never changes.
type View struct {
	// Generation is the snapshot's.
	Generation uint64
	// Next is when to call Judge again even if nothing is reported: a delay or a holdover
	// ends, or a failed write is tried again. Zero means never.
	Next time.Time

	faults map[inventory.Key][]Fault
}

// Verdict returns the verdict on a device. A device without known faults is healthy. For one
// that is not in the snapshot it has the stored faults. Its slice is shared; treat it as
// read-only.
func (v *View) Verdict(k inventory.Key) Verdict {
	faults := v.faults[k]
	return Verdict{Healthy: len(faults) == 0, Faults: faults}
}

// Faulty returns the devices that have faults, in no order, also those that are not in the
// snapshot.
func (v *View) Faulty() iter.Seq[inventory.Key] { return maps.Keys(v.faults) }

// verdicts returns the faults of every device that has some: its own, its parents' and its
// backend's. They include the stored faults of absent devices.
func (j *Judge) verdicts(snap *inventory.Snapshot, now time.Time) map[inventory.Key][]Fault {
	out := make(map[inventory.Key][]Fault, len(j.records))
	for k, r := range j.records {
		if own := r.own(); len(own) > 0 {
			out[k] = own
		}
	}
	for _, b := range snap.Backends {
		parents := map[string]string{}
		for _, d := range b.Devices {
			if d.Parent != "" {
				parents[d.ID] = d.Parent
			}
		}
		lost := j.lost(b, now)
		for _, d := range b.Devices {
			more := j.inherited(b.Name, d.Parent, parents)
			if lost != nil {
				more = append(more, *lost)
			}
			if d.Health.Unread != "" {
				more = append(more, Fault{
					Code: CodeUnread, Recovery: inventory.RecoverySelf, Reach: inventory.ReachNewHolders, Since: d.Health.UnreadSince,
					Message: "the backend could not look at it, so it is as it was then: " + d.Health.Unread,
				})
			}
			if len(more) == 0 {
				continue
			}
			all := slices.Concat(out[d.Key], more)
			slices.SortStableFunc(all, func(a, b Fault) int {
				return cmp.Or(cmp.Compare(b.Recovery, a.Recovery), a.Since.Compare(b.Since))
			})
			out[d.Key] = all
		}
	}
	return out
}

// inherited returns the faults of the parents, the nearest parent first.
func (j *Judge) inherited(backend, parent string, parents map[string]string) []Fault {
	var out []Fault
	for range maxParents {
		if parent == "" {
			break
		}
		if r := j.records[inventory.Key{Backend: backend, ID: parent}]; r != nil {
			for _, f := range r.faults {
				if !f.derived {
					inherited := f.publish()
					inherited.From = parent
					out = append(out, inherited)
				}
			}
		}
		parent = parents[parent]
	}
	return out
}

// lost returns the fault of the devices of a backend that was lost for longer than its
// holdover, or nil.
func (j *Judge) lost(b *inventory.Backend, now time.Time) *Fault {
	holdover := j.policy(b.Name).Holdover
	if b.LostAt.IsZero() || b.LostAt.Add(holdover).After(now) {
		return nil
	}
	return &Fault{
		Code: CodeBackendLost, Recovery: inventory.RecoverySelf, Since: b.LostAt,
		Message: fmt.Sprintf("backend %q stopped reporting and did not come back within its holdover of %s; see its log",
			b.Name, holdover),
	}
}
