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

const (
	// maxForeignFiles bounds how many files of other owners are read.
	maxForeignFiles = 1024
	// maxForeignSize bounds the size of a file that is read, in bytes: a round waits for it.
	maxForeignSize = 2 << 20
)

// foreignFile is a spec file that is not ours.
type foreignFile struct {
	stamp stamp
	// devices are those of our kinds that it defines, by qualified name.
	devices map[string]bool
}

// scanForeign looks for other files that define devices of our kinds. Only
// those that changed since the last time are read.
func (s *Store) scanForeign() {
	stamps, ok := s.foreignStamps()
	if !ok {
		return
	}
	found := map[string]foreignFile{}
	for name, st := range stamps {
		f, known := s.foreign[name]
		if !known || f.stamp != st {
			f = foreignFile{stamp: st, devices: definedIn(filepath.Join(s.opts.Dir, name), st)}
		}
		found[name] = f
	}
	s.foreign = found
}

// foreignStamps are the spec files in the directory that are not ours. It is not ok
// if nobody can tell, as when this process has too many files open: then what was
// found before counts.
func (s *Store) foreignStamps() (_ map[string]stamp, ok bool) {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	own := map[string]bool{}
	for k := range s.files {
		own[k.specName()] = true
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
		if len(stamps) == maxForeignFiles {
			s.log.Warn("too many CDI files to look for conflicts in all", "limit", maxForeignFiles)
			break
		}
	}
	return stamps, true
}

// definedIn are the devices of our kinds that a file defines. A file that
// runtimes can't read defines none.
func definedIn(path string, st stamp) map[string]bool {
	if !st.mode.IsRegular() || st.size > maxForeignSize {
		return nil
	}
	// Most files belong to others altogether and need no parsing.
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte(vendorSuffix)) {
		return nil
	}
	spec, err := cdi.ReadSpec(path, 0)
	if err != nil {
		return nil
	}
	k, ok := parseKind(spec.Kind)
	if !ok || k.specName() == filepath.Base(path) {
		return nil // that name is ours, we are about to write it
	}
	devices := map[string]bool{}
	for i := range spec.Devices {
		devices[k.qualified(spec.Devices[i].Name)] = true
	}
	return devices
}

// uncheckedNotes returns the problems with files that are too large to be read.
func (s *Store) uncheckedNotes() []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(s.foreign)) {
		if f := s.foreign[name]; f.stamp.mode.IsRegular() && f.stamp.size > maxForeignSize {
			notes = append(notes, fmt.Sprintf("CDI: %s has %d bytes and is not checked for devices of accelmux, because it has more than %d; "+
				"container runtimes read it whenever a spec changes, and ignore a device that two files define: make it smaller, or remove it",
				filepath.Join(s.opts.Dir, name), f.stamp.size, maxForeignSize))
		}
	}
	return notes
}

// conflict returns the file of another owner that also defines the qualified name, or "".
func (s *Store) conflict(qualified string) string {
	for name, f := range s.foreign {
		if f.devices[qualified] {
			return filepath.Join(s.opts.Dir, name)
		}
	}
	return ""
}
