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
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/wake"
)

// magic is the kind and version of the state file.
const magic = "accelmux-usage/2"

// state is the payload of the state file. Fields are only ever added, so that an
// older version can read a newer one's.
type state struct {
	BootID string       `json:"bootID"`
	Holds  []stateHold  `json:"holds"`
	Ended  []stateEnded `json:"ended,omitempty"`
	// Resets are the devices whose reset after use is due.
	Resets []stateReset `json:"resets,omitempty"`
}

type stateReset struct {
	stateDevice
	Since time.Time `json:"since"`
}

type stateEnded struct {
	stateDevice
	Holder string `json:"holder"`
	// Kind is the holder's; "" is KindContainer.
	Kind Kind `json:"kind,omitempty"`
}

type stateDevice struct {
	Backend string `json:"backend"`
	Device  string `json:"device"`
}

type stateHold struct {
	stateDevice
	Holder   string                   `json:"holder"`
	Resource string                   `json:"resource"`
	Unit     string                   `json:"unit"`
	Since    time.Time                `json:"since"`
	Seen     bool                     `json:"seen,omitempty"`
	Holders  []podresources.Container `json:"holders,omitempty"`
	// Unprepared is holder.unprepared.
	Unprepared bool `json:"unannounced,omitempty"`
	// ResetGroup and Parents are the device's reset scope.
	ResetGroup string   `json:"resetGroup,omitempty"`
	Parents    []string `json:"parents,omitempty"`
}

// load reads the file of an earlier run.
func (b *Book) load() {
	if _, err := checkpoint.Sweep(filepath.Dir(b.opts.Path), filepath.Base(b.opts.Path)); err != nil {
		b.log.Warn("temporary files of an earlier run not removed", "error", err)
	}
	s, err := readState(b.opts.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		b.unconfirmed.lost = true // if there was an earlier run
		return
	case errors.Is(err, checkpoint.ErrCorrupt):
		b.unconfirmed.lost = true
		moved := checkpoint.Quarantine(b.opts.Path)
		b.notes["state"] = fmt.Sprintf("holders: the record of allocations is damaged (%v); %s; until kubelet's pods have been listed, devices with a definition of an earlier run count as held",
			err, moved)
		b.log.Warn("the record of allocations is damaged; "+moved, "error", err)
		return
	case err != nil:
		b.unconfirmed.lost = true
		b.notes["state"] = fmt.Sprintf("holders: the record of allocations cannot be read: %v", err)
		b.log.Error("reading the record of allocations failed", "error", err)
		return
	}
	if s.BootID != b.opts.BootID {
		return // no container outlives the boot it was started in
	}
	// The wall clock may have been stepped since: the grace begins again.
	now, holders := b.opts.Now(), map[string]*holder{}
	for _, h := range s.Holds {
		if holders[h.Holder] == nil {
			holders[h.Holder] = &holder{Ref: Ref{KindContainer, h.Holder}, unprepared: h.Unprepared}
		}
		b.put(podresources.Unit{Resource: h.Resource, ID: h.Unit}, &allocation{
			holder: holders[h.Holder], device: inventory.Key{Backend: h.Backend, ID: h.Device}, reset: ResetScope{Group: h.ResetGroup, Parents: h.Parents},
			started: true, seen: podresources.Presence{Since: now, Listed: h.Seen, Containers: h.Holders},
		})
	}
	for _, r := range s.Resets {
		b.due[inventory.Key{Backend: r.Backend, ID: r.Device}] = &operation{what: awaitingReset, exclusive: true, since: r.Since, ended: make(chan struct{})}
	}
	for _, e := range s.Ended {
		b.ended.sent[Ended{Ref{cmp.Or(e.Kind, KindContainer), e.Holder}, inventory.Key{Backend: e.Backend, ID: e.Device}}] = false
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
	seen := map[podresources.Unit]bool{}
	for _, h := range s.Holds {
		name := podresources.Unit{Resource: h.Resource, ID: h.Unit}
		if h.Resource == "" || h.Unit == "" || h.Holder == "" || h.Backend == "" || h.Device == "" || seen[name] {
			return nil, fmt.Errorf("%w: unit %q of resource %q is incomplete or there twice", checkpoint.ErrCorrupt, h.Unit, h.Resource)
		}
		seen[name] = true
	}
	return s, nil
}

// file is the state file's.
type file struct {
	writing sync.Mutex
	// outdated: the file differs from the book.
	outdated chan struct{}
	// changes is Book.changes in the file. It belongs to Book.mu.
	changes uint64
}

// Store writes the allocations to the file, unless it has them or the book is closed. If it
// cannot be written, that is the error, is in Notes, and is tried again while Run runs.
func (b *Book) Store() error {
	b.mu.Lock()
	stored := b.closed || b.file.changes == b.changes
	b.mu.Unlock()
	if stored {
		return nil
	}
	err := b.save()
	if err != nil {
		wake.Send(b.file.outdated)
	}
	return err
}

// save writes the file.
func (b *Book) save() error {
	b.file.writing.Lock()
	defer b.file.writing.Unlock()
	s, changes := b.state()
	payload, err := json.MarshalIndent(s, "", " ")
	if err == nil {
		err = b.opts.Disk.Write(b.opts.Path, magic, payload)
	}
	if err != nil {
		b.note("write", fmt.Sprintf("holders: the record of allocations cannot be written (%v); until it can, a restart relies on kubelet's list of pods", err))
		b.log.Error("writing the record of allocations failed, trying again", "error", err)
		return fmt.Errorf("write the record of allocations: %w", err)
	}
	b.note("write", "")
	b.mu.Lock()
	b.file.changes = changes
	b.mu.Unlock()
	return nil
}

// state returns what the file is to have, and Book.changes of that.
func (b *Book) state() (s *state, changes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s = &state{BootID: b.opts.BootID, Holds: []stateHold{}}
	for name, a := range b.allocations {
		if a.holder.Kind == KindClaim {
			continue // the record of claims has it
		}
		s.Holds = append(s.Holds, stateHold{
			stateDevice: stateDevice{Backend: a.device.Backend, Device: a.device.ID},
			Holder:      a.holder.ID, Resource: name.Resource, Unit: name.ID, Since: a.seen.Since.Round(0).UTC(), Seen: a.seen.Listed,
			Holders: slices.Clone(a.seen.Containers), Unprepared: a.holder.unprepared,
			ResetGroup: a.reset.Group, Parents: a.reset.Parents,
		})
	}
	slices.SortFunc(s.Holds, func(a, b stateHold) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Unit, b.Unit))
	})
	for _, e := range slices.SortedFunc(maps.Keys(b.ended.sent), compareEnded) {
		ended := stateEnded{stateDevice: stateDevice{Backend: e.Device.Backend, Device: e.Device.ID}, Holder: e.Holder.ID}
		if e.Holder.Kind != KindContainer {
			ended.Kind = e.Holder.Kind
		}
		s.Ended = append(s.Ended, ended)
	}
	for _, device := range slices.SortedFunc(maps.Keys(b.due), inventory.Key.Compare) {
		s.Resets = append(s.Resets, stateReset{stateDevice{device.Backend, device.ID}, b.due[device].since.Round(0).UTC()})
	}
	return s, b.changes
}
