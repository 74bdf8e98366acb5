package podresources

import (
	"slices"
	"time"
)

// Presence is what the lists show of one owner: a unit that a container has, or a claim.
type Presence struct {
	// Since is when the owner began, or was first listed.
	Since time.Time
	// Listed: a list named it since then. Containers are those of the latest, sorted.
	Listed     bool
	Containers []Container
	// missing is when the first list without it began; zero if the latest list has it, or no
	// list ever had it.
	missing time.Time
}

// See records that a list has the owner, with these containers, and reports whether that is new. A list that began before the
// owner says nothing of it.
func (p *Presence) See(l List, containers []Container) (changed bool) {
	if p.Since.After(l.Began) || p.Listed && p.missing.IsZero() && slices.Equal(p.Containers, containers) {
		return false
	}
	p.Listed, p.Containers, p.missing = true, containers, time.Time{}
	return true
}

// Miss records that a list does not have the owner. gone: it has ended. A single list may have been made too early. Two lists
// that are Timing.Confirm apart end it at any age, if it was listed before; when the first is new, call [Kubelet.Soon].
func (p *Presence) Miss(l List) (gone, changed bool) {
	if !l.Conclusive() {
		return false, false
	}
	grace := l.timing.Unseen
	if p.Listed {
		grace = l.timing.Grace
	}
	if l.Began.Sub(p.Since) >= grace || p.Ending() && l.Began.Sub(p.missing) >= l.timing.Confirm {
		return true, true
	}
	if !p.Listed || p.Ending() || p.Since.After(l.Began) {
		return false, false
	}
	p.missing = l.Began
	return false, true
}

// Ending reports whether the latest list does not have the owner, though an earlier one did.
func (p *Presence) Ending() bool { return !p.missing.IsZero() }

// IsUnseen reports whether only kubelet's checkpoint can tell that the owner is gone: no list named it, and kubelet has
// written its checkpoint since, if it still has it. Kubelet writes it before the pod starts.
func (p *Presence) IsUnseen(l List) bool {
	return !p.Listed && l.Conclusive() && l.Began.Sub(p.Since) >= l.timing.Grace
}
