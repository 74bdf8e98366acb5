package mock

import (
	"slices"

	"github.com/accelmux/accelmux/backends/sdk"
)

// mockNeeds are any edits: the settings say what a container gets. The node's configuration
// bounds them.
var mockNeeds = &sdk.Needs{
	DeviceNodes: []string{"/**"}, Mounts: []string{"/**"}, Hooks: []string{"/**"}, Env: []string{"*"},
}

// Needs implements [sdk.Needer]: there is no pattern for group IDs.
func (b *Backend) Needs() *sdk.Needs {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg == nil {
		return nil
	}
	var gids []uint32
	add := func(e *edits) {
		if e != nil {
			gids = append(gids, e.AdditionalGIDs...)
		}
	}
	for _, s := range b.cfg.specs {
		add(s.group.Edits)
		if s.group.Prepare != nil {
			add(s.group.Prepare.Edits)
		}
	}
	slices.Sort(gids)
	return &sdk.Needs{Gids: slices.DeleteFunc(slices.Compact(gids), func(gid uint32) bool { return gid == 0 })}
}
