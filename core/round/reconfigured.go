package round

import (
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
)

// BeforeReconfiguration returns the snapshot with the devices that these backends listed in the
// previous round. They are being reconfigured, and what they list may be by the settings of the
// next plan, whose attributes do not fit the resources of this one. The health of these devices is
// what is reported now.
func BeforeReconfiguration(all *inventory.Snapshot, reconfigured map[string]bool, before *Round) *inventory.Snapshot {
	if len(reconfigured) == 0 {
		return all
	}
	mixed := &inventory.Snapshot{Generation: all.Generation}
	for _, b := range all.Backends {
		if reconfigured[b.Name] {
			if b = withHealth(before.Backend(b.Name), b); b == nil {
				continue // it has not reported by the settings of this plan
			}
		}
		mixed.Backends = append(mixed.Backends, b)
	}
	return mixed
}

// withHealth returns what a backend listed with the health that it reports now. A device whose
// health is the same is the same pointer.
func withHealth(listed, now *inventory.Backend) *inventory.Backend {
	if listed == nil {
		return nil
	}
	health := make(map[string]inventory.Health, len(now.Devices))
	for _, d := range now.Devices {
		health[d.ID] = d.Health
	}
	b := *listed
	b.Generation, b.ReceivedAt, b.LostAt, b.Superseded = now.Generation, now.ReceivedAt, now.LostAt, now.Superseded
	b.Devices = slices.Clone(listed.Devices)
	for i, d := range b.Devices {
		if h, ok := health[d.ID]; ok && h != d.Health {
			changed := *d
			changed.Health = h
			b.Devices[i] = &changed
		}
	}
	return &b
}
