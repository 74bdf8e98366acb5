package cdi

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	cdi "tags.cncf.io/container-device-interface/pkg/cdi"
)

// maxForeignSize bounds the size of a foreign spec file that is read, in bytes, because a round
// waits for it. A larger one is not checked.
const maxForeignSize = 2 << 20

// scanForeign finds the devices of our kinds that other spec files in the directory define.
// Runtimes ignore a device that two files define.
func (s *Store) scanForeign() {
	stamps, ok := s.foreignStamps()
	if !ok || maps.Equal(stamps, s.foreign) {
		return
	}
	s.foreign, s.conflicts = stamps, map[string]string{}
	for name, st := range stamps {
		path := filepath.Join(s.opts.Dir, name)
		for _, qualified := range definedIn(path, st) {
			s.conflicts[qualified] = path
		}
	}
}

// uncheckedNotes returns the problems with files that are too large to be checked.
func (s *Store) uncheckedNotes() []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(s.foreign)) {
		if st := s.foreign[name]; st.mode.IsRegular() && st.size > maxForeignSize {
			notes = append(notes, fmt.Sprintf("CDI: %s has %d bytes and is not checked for devices of accelmux, because it has more than %d; "+
				"container runtimes read it whenever a spec changes, and ignore a device that two files define: make it smaller, or remove it",
				filepath.Join(s.opts.Dir, name), st.size, maxForeignSize))
		}
	}
	return notes
}

// foreignStamps returns the spec files in the directory that are not ours, by name. It is not
// ok if the directory cannot be read, as when this process has too many files open; then the
// files found before count.
func (s *Store) foreignStamps() (_ map[string]stamp, ok bool) {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	own := map[string]bool{}
	for k := range s.files {
		own[k.fileName()] = true
	}
	stamps := map[string]stamp{}
	for _, entry := range entries {
		ext := filepath.Ext(entry.Name())
		if entry.IsDir() || own[entry.Name()] || (ext != ".json" && ext != ".yaml") {
			continue
		}
		if info, err := os.Stat(filepath.Join(s.opts.Dir, entry.Name())); err == nil {
			stamps[entry.Name()] = stampFrom(info)
		}
	}
	return stamps, true
}

// definedIn returns the qualified names of our kinds that a file defines. A file that runtimes
// cannot read defines none.
func definedIn(path string, st stamp) []string {
	if !st.mode.IsRegular() || st.size > maxForeignSize {
		return nil
	}
	// Most files define no device of ours and need no parsing.
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte(vendorSuffix)) {
		return nil
	}
	spec, err := cdi.ReadSpec(path, 0)
	if err != nil {
		return nil
	}
	k, ok := parseKind(spec.Kind)
	if !ok || k.fileName() == filepath.Base(path) {
		return nil // a file of that name is ours, and is about to be written
	}
	var names []string
	for i := range spec.Devices {
		names = append(names, k.qualified(spec.Devices[i].Name))
	}
	return names
}
