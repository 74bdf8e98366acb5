package cdi

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/handover"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/statefile"
)

// Agents may share a directory if they have different backends: the specs of a backend
// belong to the agent that has locked its lock file. Two that wrote the same file would
// remove each other's definitions, also those that containers hold. What is nobody's, as
// the specs of a backend that the configuration has no more, is left as it is.

const (
	// lockSuffix is none that runtimes read.
	lockSuffix = ".lock"
	// ownRetry is how often a backend's specs are tried that another agent has.
	ownRetry = 10 * time.Second
)

// own makes the specs of a backend this store's, and loads them if they were not. The
// error is for specs that another agent has. What cannot be locked for another reason is
// not: the agent must run, whatever the file system. The caller holds s.mu.
func (s *Store) own(backend string) error {
	held, owned := s.owned[backend]
	if held != nil && held.Holds() {
		return nil
	}
	path := filepath.Join(s.opts.Dir, filePrefix+backend+lockSuffix)
	lock, err := handover.LockFile(path)
	if errors.Is(err, handover.ErrHeld) {
		s.disown(backend)
		err = fmt.Errorf("backend %s: %w: it keeps the CDI specs of a backend of this name in this directory, and has another state directory; "+
			"remove one of the two agents (two charts, or a service beside a DaemonSet), give the backends different names, "+
			"or have the agents take turns with --take-over and one --state-dir", backend, err)
		if s.contested[backend] == "" {
			s.log.Warn("another agent has the CDI specs", "backend", backend, "error", err)
		}
		s.contested[backend] = err.Error()
		return err
	}
	delete(s.contested, backend)
	if err != nil && !owned {
		s.log.Warn("cannot lock the CDI specs; another agent that writes them would not be noticed", "backend", backend, "error", err)
	}
	if held != nil {
		_ = held.Release() // of a file that was removed
	}
	if s.owned[backend] = lock; owned {
		return nil
	}
	if err := s.load(backend); err != nil {
		s.log.Warn("read the CDI directory", "backend", backend, "error", err)
	}
	return nil
}

// ownAll makes the specs of the devices' backends this store's, where no other agent has
// them, and takes those again whose lock file was removed.
func (s *Store) ownAll(devices []*inventory.Device) {
	backends := map[string]bool{}
	for _, d := range devices {
		backends[d.Backend] = true
	}
	maps.DeleteFunc(s.contested, func(backend, _ string) bool { return !backends[backend] })
	for backend := range s.owned {
		backends[backend] = true
	}
	for _, backend := range slices.Sorted(maps.Keys(backends)) {
		_ = s.own(backend) // what it returns is in contested
	}
}

// disown forgets the specs of a backend.
func (s *Store) disown(backend string) {
	if lock := s.owned[backend]; lock != nil {
		_ = lock.Release() // of a file that was removed
	}
	delete(s.owned, backend)
	maps.DeleteFunc(s.files, func(k kind, _ *specFile) bool { return k.backend == backend })
}

// ownsAll reports whether what was owned is locked still, as far as it could be.
func (s *Store) ownsAll() bool {
	for _, lock := range s.owned {
		if lock != nil && !lock.Holds() {
			return false
		}
	}
	return true
}

// release frees all specs.
func (s *Store) release() error {
	var errs []error
	for _, lock := range s.owned {
		if lock != nil {
			errs = append(errs, lock.Release())
		}
	}
	s.owned = nil
	return errors.Join(errs...)
}

// load reads what an earlier run left of a backend.
func (s *Store) load(backend string) error {
	for _, separator := range []string{"-", "_"} {
		if _, err := statefile.Sweep(s.opts.Dir, filePrefix+backend+separator); err != nil {
			s.log.Warn("remove temporary files of an earlier run", "error", err)
		}
	}
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return err
	}
	for _, suffix := range []string{specSuffix, sideSuffix} {
		for _, entry := range entries {
			k, ok := kindOfFile(entry.Name(), suffix)
			switch path := filepath.Join(s.opts.Dir, entry.Name()); {
			case !ok || k.backend != backend || entry.IsDir():
			case suffix == specSuffix:
				s.loadSpec(path)
			default:
				s.loadOrphan(path, k)
			}
		}
	}
	if adopted := s.devices(backend); len(adopted) > 0 && s.opts.Adopted != nil {
		s.opts.Adopted(adopted...)
	}
	return nil
}

// kindOfFile is the inverse of [kind.stem], for a file's name with that suffix.
func kindOfFile(name, suffix string) (kind, bool) {
	stem := strings.TrimSuffix(strings.TrimPrefix(name, filePrefix), suffix)
	separator := "-"
	if strings.Contains(stem, "_") {
		separator = "_"
	}
	backend, class, ok := strings.Cut(stem, separator)
	k := kind{backend: backend, class: class}
	return k, ok && k.check() == nil && k.stem()+suffix == name
}

// contestedNotes are the problems with specs that another agent has.
func (s *Store) contestedNotes() []string {
	return slices.Sorted(maps.Values(s.contested))
}
