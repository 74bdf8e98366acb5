package status

import (
	"fmt"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Needs are what the container edits of a backend may have: what it declares, as far as the
// configuration accepts or lists it.
type Needs struct {
	// Acceptance is allow.declared: accept or refuse.
	Acceptance string `json:"acceptance"`
	// Declared is what the running process declares, for its settings.
	Declared Edits `json:"declared"`
	// Accepted is the part of it that allow.declared accepts.
	Accepted Edits `json:"accepted"`
	// Listed are the lists of allow.
	Listed Edits `json:"listed"`
	// NotSeen are host paths of the devices' edits that the agent cannot see: these are checked by
	// their names alone.
	NotSeen []string `json:"notSeen,omitempty"`
}

// Edits are entries for container edits: paths with patterns, names and numbers.
type Edits struct {
	Devices        []string `json:"devices,omitempty"`
	Mounts         []string `json:"mounts,omitempty"`
	ReadOnlyMounts []string `json:"readOnlyMounts,omitempty"`
	Hooks          []string `json:"hooks,omitempty"`
	Env            []string `json:"env,omitempty"`
	GIDs           []uint32 `json:"gids,omitempty"`
	NetDevices     []string `json:"netDevices,omitempty"`
}

// maxNeeds bounds the text of the entries that a report has of one scope, in bytes.
const maxNeeds = 32 << 10

// needs returns nil for a backend that has not been described, or is not in the profile. reported
// is nil for one without an inventory.
func needs(b *config.Backend, s supervisor.Status, reported *inventory.Backend) *Needs {
	if b == nil || s.Description.Name == "" {
		return nil
	}
	declared := s.Description.Needs.Edits
	n := &Needs{Acceptance: string(b.Allow.Declared), Declared: edits(declared)}
	if b.Allow.Declared == config.AcceptDeclared {
		n.Accepted = edits(declared.Acceptable())
	}
	n.Listed = Edits{Devices: b.Allow.Devices, Mounts: b.Allow.Mounts, Hooks: b.Allow.Hooks, Env: b.Allow.Env, NetDevices: b.Allow.NetDevices}
	for _, gid := range b.Allow.GIDs {
		n.Listed.GIDs = append(n.Listed.GIDs, uint32(gid)) //nolint:gosec // validated
	}
	if reported != nil {
		n.NotSeen = first(reported.Unseen, new(maxNeeds))
	}
	return n
}

// first returns the entries that fit into left bytes; a list that is cut ends with the number of
// the others.
func first(entries []string, left *int) []string {
	for i, entry := range entries {
		if *left -= len(entry); *left < 0 {
			return append(entries[:i:i], fmt.Sprintf("and %d more", len(entries)-i))
		}
	}
	return entries
}

// edits returns the entries up to maxNeeds.
func edits(s inventory.EditScope) Edits {
	left := maxNeeds
	first := func(entries []string) []string { return first(entries, &left) }
	return Edits{
		Devices: first(s.Devices), Mounts: first(s.Mounts), ReadOnlyMounts: first(s.ReadOnlyMounts),
		Hooks: first(s.Hooks), Env: first(s.Env), GIDs: s.GIDs, NetDevices: first(s.NetDevices),
	}
}

// Summary is what containers may have of the declared needs, in a few words: "declared",
// "declared in part", "listed", each with "by name" if the agent does not see all of it, or "" if
// nothing is declared.
func (n *Needs) Summary() string {
	summary := "declared"
	switch declared := n.Declared.count(); {
	case declared == 0:
		return ""
	case n.Acceptance != string(config.AcceptDeclared):
		summary = "listed"
	case n.Accepted.count() < declared:
		summary = "declared in part"
	}
	if len(n.NotSeen) > 0 {
		summary += ", by name"
	}
	return summary
}

func (e Edits) count() int {
	return len(e.Devices) + len(e.Mounts) + len(e.ReadOnlyMounts) + len(e.Hooks) + len(e.Env) + len(e.GIDs) + len(e.NetDevices)
}
