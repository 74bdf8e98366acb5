package holders

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// magic is the kind and version of the state file.
const magic = "accelmux-usage/2"

// state is the payload of the state file. Fields are only ever added, so that an
// older version can read a newer one's.
type state struct {
	BootID string       `json:"bootID"`
	Holds  []stateHold  `json:"holds"`
	Ended  []stateEnded `json:"ended,omitempty"`
}

type stateEnded struct {
	stateDevice
	Holder string `json:"holder"`
}

type stateDevice struct {
	Backend string `json:"backend"`
	Device  string `json:"device"`
}

type stateHold struct {
	stateDevice
	Holder   string    `json:"holder"`
	Resource string    `json:"resource"`
	Unit     string    `json:"unit"`
	Since    time.Time `json:"since"`
	Seen     bool      `json:"seen,omitempty"`
	Holders  []holder  `json:"holders,omitempty"`
	// Unannounced is hold.unannounced.
	Unannounced bool `json:"unannounced,omitempty"`
	// ResetGroup and Parents are the device's kin, as it was last listed.
	ResetGroup string   `json:"resetGroup,omitempty"`
	Parents    []string `json:"parents,omitempty"`
}

// load takes over the file of an earlier run.
func (b *Book) load() {
	if _, err := checkpoint.Sweep(filepath.Dir(b.opts.Path), filepath.Base(b.opts.Path)); err != nil {
		b.log.Warn("remove temporary files of an earlier run", "error", err)
	}
	s, err := readState(b.opts.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		b.lost = true // if there was an earlier run
		return
	case errors.Is(err, checkpoint.ErrCorrupt):
		b.lost = true
		aside, moveErr := checkpoint.Quarantine(b.opts.Path)
		if moveErr != nil {
			aside = fmt.Sprintf("still there (%v)", moveErr)
		}
		b.notes["state"] = fmt.Sprintf("usage: the record of held devices was damaged (%v) and is now %s; until kubelet has been asked, devices with a definition of an earlier run count as held",
			err, aside)
		b.log.Warn("damaged record of held devices moved aside", "error", err, "file", aside)
		return
	case err != nil:
		b.lost = true
		b.notes["state"] = fmt.Sprintf("usage: the record of held devices cannot be read: %v", err)
		b.log.Error("read the record of held devices", "error", err)
		return
	}
	if s.BootID != b.opts.BootID {
		return // no container outlives the boot it was started in
	}
	now := b.opts.Now()
	for _, h := range s.Holds {
		// The wall clock may have been stepped since: the grace begins anew.
		b.put(unit{resource: h.Resource, id: h.Unit}, &hold{
			key: inventory.Key{Backend: h.Backend, ID: h.Device}, holderID: h.Holder, since: now, seen: h.Seen, holders: h.Holders, unannounced: h.Unannounced,
			kin: Kin{ResetGroup: h.ResetGroup, Parents: h.Parents},
		})
	}
	for _, e := range s.Ended {
		b.unsettled[Ended{e.Holder, inventory.Key{Backend: e.Backend, ID: e.Device}}] = false
	}
}

// readState reads the state file. What has the right checksum but makes no sense
// is corrupt, too.
func readState(path string) (*state, error) {
	payload, err := checkpoint.Read(path, magic)
	if err != nil {
		return nil, err
	}
	s := &state{}
	if err := json.Unmarshal(payload, s); err != nil {
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	seen := map[unit]bool{}
	for _, h := range s.Holds {
		u := unit{resource: h.Resource, id: h.Unit}
		if h.Resource == "" || h.Unit == "" || h.Holder == "" || h.Backend == "" || h.Device == "" || seen[u] {
			return nil, fmt.Errorf("%w: unit %q of resource %q makes no sense", checkpoint.ErrCorrupt, h.Unit, h.Resource)
		}
		seen[u] = true
	}
	return s, nil
}

// Store writes the holders to the file, unless it has them or the book is closed. What cannot be written is in
// Notes, and is tried again while Run runs.
func (b *Book) Store() {
	b.mu.Lock()
	stored := b.closed || b.stored == b.puts
	b.mu.Unlock()
	if !stored && b.save() != nil {
		signal(b.dirty)
	}
}

// save writes the file.
func (b *Book) save() error {
	b.saving.Lock()
	defer b.saving.Unlock()
	s, puts := b.state()
	payload, err := json.MarshalIndent(s, "", " ")
	if err == nil {
		err = b.opts.Disk.Write(b.opts.Path, magic, payload)
	}
	if err != nil {
		b.note("write", fmt.Sprintf("usage: the record of held devices cannot be written (%v); until it can, a restart relies on kubelet's own", err))
		b.log.Error("write the record of held devices, trying again", "error", err)
		return fmt.Errorf("write the record of held devices: %w", err)
	}
	b.note("write", "")
	b.mu.Lock()
	b.stored = puts
	b.mu.Unlock()
	return nil
}

// state is what the file is to say, and the holds that it has.
func (b *Book) state() (s *state, puts uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s = &state{BootID: b.opts.BootID, Holds: []stateHold{}}
	for u, h := range b.holds {
		s.Holds = append(s.Holds, stateHold{
			stateDevice: stateDevice{Backend: h.key.Backend, Device: h.key.ID},
			Holder:      h.holderID, Resource: u.resource, Unit: u.id, Since: h.since.Round(0).UTC(), Seen: h.seen, Holders: slices.Clone(h.holders), Unannounced: h.unannounced,
			ResetGroup: h.kin.ResetGroup, Parents: h.kin.Parents,
		})
	}
	slices.SortFunc(s.Holds, func(a, b stateHold) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Unit, b.Unit))
	})
	for _, e := range slices.SortedFunc(maps.Keys(b.unsettled), compareEnded) {
		s.Ended = append(s.Ended, stateEnded{stateDevice{Backend: e.Key.Backend, Device: e.Key.ID}, e.Holder})
	}
	return s, b.puts
}
