package cdi

import (
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/accelmux/accelmux/core/inventory"
)

// Amend adds edits to what the device's names mean, for the container that is
// about to start; they replace the amendment before. They are on disk when Amend
// returns nil, and stay until [Store.Unamend], over Publish and over a restart.
// Which of a device's names that container was given is not known, so all of
// them are amended. Without edits it is Unamend. It is an error if the device
// has no definition.
func (s *Store) Amend(key inventory.Key, edits inventory.Edits) error {
	if edits.Empty() {
		return s.Unamend(key)
	}
	text, err := encode(toCDI(edits))
	if err == nil {
		err = s.amend(key, text)
	}
	if err != nil {
		return fmt.Errorf("amend the CDI definition of device %s: %w", key, err)
	}
	return nil
}

// Unamend takes the amendment away. It does nothing if there is none.
func (s *Store) Unamend(key inventory.Key) error {
	if err := s.amend(key, ""); err != nil && !errors.Is(err, errUndefined) {
		return fmt.Errorf("take back the amendment of device %s's CDI definition: %w", key, err)
	}
	return nil
}

var errUndefined = errors.New("it has none")

func (s *Store) amend(key inventory.Key, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the CDI store is closed")
	}
	found := false
	for _, k := range s.kinds(nil) {
		f := s.files[k]
		names := f.defs.of(key)
		if len(names) == 0 {
			continue
		}
		found = true
		next := maps.Clone(f.defs)
		for _, name := range names {
			d := *next[name]
			d.amendment = text
			edits, err := d.edits()
			if err == nil {
				err = checkEdits(edits)
			}
			if err != nil {
				return err
			}
			next[name] = &d
		}
		if size := next.size(); len(text) > maxEdits || size > f.defs.size() && size > s.room(k) {
			return fmt.Errorf("container edits that Prepare adds have %d bytes as JSON; at most %d are allowed, and %d for all devices of backend %s",
				len(text), maxEdits, maxSpecs, k.backend)
		}
		if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
			return err
		}
		if err := s.commit(f, next); err != nil {
			return err
		}
	}
	if !found {
		return errUndefined
	}
	return nil
}
