package cdi

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// errForeign says that a file is a sound spec, but not one of ours.
var errForeign = errors.New("not a file of accelmux")

func (s *Store) loadSpec(path string) {
	f, err := loadSpec(path)
	if f != nil {
		s.files[f.kind] = f
		if err != nil {
			s.quarantine(f.sidePath(), "which device some CDI names belong to is forgotten, they stay while anything is held", err)
		}
		return
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errForeign) {
		return // a foreign file takes part in the search for conflicts
	}
	s.quarantine(path, "its devices get their definitions back when their backend reports them", err)
}

// loadOrphan takes over what the side file of a spec that is lost still says, so
// that names which only it explains can be restored.
func (s *Store) loadOrphan(path string, k kind) {
	if s.files[k] != nil {
		return
	}
	side, payload, err := loadSide(path, k)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.quarantine(path, "definitions that it described are forgotten", err)
		}
		return
	}
	f := &specFile{kind: k, dir: s.opts.Dir, defs: definitions{}, side: payload, sideKnown: true}
	f.adopt(side)
	s.files[k] = f
	s.log.Warn("CDI spec lost, taking what its side file describes", "file", path, "definitions", len(f.defs))
}

// quarantine moves a damaged file aside and notes what that means.
func (s *Store) quarantine(path, meaning string, cause error) {
	aside, err := checkpoint.Quarantine(path)
	note := fmt.Sprintf("CDI: %s was damaged (%v) and is now %s: %s", path, cause, aside, meaning)
	if err != nil {
		note = fmt.Sprintf("CDI: %s is damaged (%v) and could not be moved aside (%v): %s", path, cause, err, meaning)
	}
	s.log.Warn("damaged CDI file moved aside", "file", path, "error", cause, "meaning", meaning)
	s.notes = append(s.notes, note)
}
