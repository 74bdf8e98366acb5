package status

import (
	"fmt"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Needs are what the container edits of a backend may have: what its manifest has, if the configuration accepts that, and
// what the configuration lists.
type Needs struct {
	// Acceptance is allow.declared: accept or refuse.
	Acceptance string `json:"acceptance"`
	// Declared is what the manifest has for the settings of the running process.
	Declared Edits `json:"declared"`
	// Listed are the lists of allow.
	Listed Edits `json:"listed"`
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

// needs returns nil for a backend that has not run, or is not in the profile.
func needs(b *config.Backend, s supervisor.Status) *Needs {
	if b == nil || s.Description.Name == "" {
		return nil
	}
	n := &Needs{Acceptance: string(b.Allow.Declared), Declared: edits(s.Description.Edits)}
	n.Listed = Edits{Devices: b.Allow.Devices, Mounts: b.Allow.Mounts, Hooks: b.Allow.Hooks, Env: b.Allow.Env, NetDevices: b.Allow.NetDevices}
	for _, gid := range b.Allow.GIDs {
		n.Listed.GIDs = append(n.Listed.GIDs, uint32(gid)) //nolint:gosec // validated
	}
	return n
}

// edits returns the entries up to maxNeeds. A list that is cut ends with the number of the others.
func edits(s inventory.EditScope) Edits {
	left := maxNeeds
	first := func(entries []string) []string {
		for i, entry := range entries {
			if left -= len(entry); left < 0 {
				return append(entries[:i:i], fmt.Sprintf("and %d more", len(entries)-i))
			}
		}
		return entries
	}
	return Edits{
		Devices: first(s.Devices), Mounts: first(s.Mounts), ReadOnlyMounts: first(s.ReadOnlyMounts),
		Hooks: first(s.Hooks), Env: first(s.Env), GIDs: s.GIDs, NetDevices: first(s.NetDevices),
	}
}

// Summary is what containers may have of what the manifest has, in a word: "declared", "listed", or "" if it has nothing.
func (n *Needs) Summary() string {
	switch {
	case n.Declared.count() == 0:
		return ""
	case n.Acceptance != string(config.AcceptDeclared):
		return "listed"
	}
	return "declared"
}

func (e Edits) count() int {
	return len(e.Devices) + len(e.Mounts) + len(e.ReadOnlyMounts) + len(e.Hooks) + len(e.Env) + len(e.GIDs) + len(e.NetDevices)
}
