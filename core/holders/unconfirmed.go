package holders

import (
	"maps"

	"github.com/accelmux/accelmux/core/inventory"
)

// unconfirmed has the devices that count as held although the book has no allocation of
// them. The fields are guarded by Book.mu.
type unconfirmed struct {
	// suspects are from before this run, until complete: a list has been read, so that the
	// book has every allocation.
	suspects map[inventory.Key]bool
	complete bool
	// lost: the state file was missing or unreadable.
	lost bool
	// unresolved are IDs of devices that are listed for a resource of ours, but that no
	// backend has reported yet.
	unresolved map[string]bool
}

func (u *unconfirmed) has(device inventory.Key) bool {
	return u.suspects[device] || u.unresolved[device.ID]
}

// Suspect adds devices that may be held although the book has no allocation of them, such as
// those with a CDI definition of an earlier run. They count as held until kubelet's pods have been
// listed.
func (b *Book) Suspect(devices ...inventory.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unconfirmed.complete {
		return
	}
	for _, device := range devices {
		b.unconfirmed.suspects[device] = true
	}
}

// byID maps IDs to suspects; it leaves out IDs of several suspects. It returns nil unless the
// state file was missing or unreadable. Only the ID identifies a device whose resource was
// renamed. The caller holds Book.mu.
func (u *unconfirmed) byID() map[string]inventory.Key {
	if !u.lost {
		return nil
	}
	byID, several := map[string]inventory.Key{}, map[string]bool{}
	for device := range u.suspects {
		_, twice := byID[device.ID]
		several[device.ID] = several[device.ID] || twice
		byID[device.ID] = device
	}
	maps.DeleteFunc(byID, func(id string, _ inventory.Key) bool { return several[id] })
	return byID
}
