package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/takeover"
)

// Agents may share a directory if they have different backends: the specs of a backend
// belong to the agent that has locked its lock file. Two agents that wrote the same file
// would remove each other's definitions, also those that containers use. Specs without an
// owner, such as those of a backend that is not configured and of whose devices no container
// holds any, are left as they are.

const (
	// lockSuffix is a suffix that runtimes do not read.
	lockSuffix = ".lock"
	// ownRetry is the interval of attempts to lock the specs of a backend that another agent
	// has.
	ownRetry = 10 * time.Second
)

// Own locks the specs of backends and loads those of an earlier run. Its temporary files are
// removed, and a damaged file is moved aside, because runtimes cannot read it either. The error
// joins a [takeover.ErrHeld] for each backend whose specs another agent has.
func (s *Store) Own(backends []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownEach(slices.Values(backends))
}

func (s *Store) ownEach(backends iter.Seq[string]) error {
	var errs []error
	for backend := range backends {
		errs = append(errs, s.own(backend))
	}
	return errors.Join(errs...)
}

// own locks the specs of a backend for this store, and loads them if it did not have them.
// The error is a [takeover.ErrHeld]: another agent has them. If they cannot be locked for
// another reason, they count as locked: the agent must run on every file system. The caller
// holds s.mu.
func (s *Store) own(backend string) error {
	held, owned := s.owned[backend]
	if held != nil && held.Holds() {
		return nil
	}
	path := filepath.Join(s.opts.Dir, filePrefix+backend+lockSuffix)
	lock, err := takeover.LockFile(path)
	if errors.Is(err, takeover.ErrHeld) {
		s.disown(backend)
		err = fmt.Errorf("backend %s: %w: it has another state directory, and writes CDI specs for a backend of the same name in this directory; "+
			"remove one of the two agents (two charts, or a service beside a DaemonSet), give the backends different names, "+
			"or run both agents with --take-over and the same --state-dir", backend, err)
		if s.contested[backend] == "" {
			s.log.Warn("another agent has the CDI specs", "backend", backend, "error", err)
		}
		s.contested[backend] = err.Error()
		return err
	}
	delete(s.contested, backend)
	if err != nil && !owned {
		s.log.Warn("cannot lock the CDI specs; another agent that writes them will not be noticed", "backend", backend, "error", err)
	}
	if held != nil {
		_ = held.Remove() // of a file that was removed
	}
	if s.owned[backend] = lock; owned {
		return nil
	}
	if err := s.load(backend); err != nil {
		s.log.Warn("read the CDI directory", "backend", backend, "error", err)
	}
	return nil
}

// ownAll locks the specs of the devices' backends, unless another agent has them, and locks
// those again whose lock file was removed.
func (s *Store) ownAll(devices []*inventory.Device) {
	backends := map[string]bool{}
	for _, d := range devices {
		backends[d.Backend] = true
	}
	maps.DeleteFunc(s.contested, func(backend, _ string) bool { return !backends[backend] })
	for backend := range s.owned {
		backends[backend] = true
	}
	_ = s.ownEach(maps.Keys(backends)) // what it returns is in contested
}

// disown forgets the specs of a backend and releases their lock.
func (s *Store) disown(backend string) {
	if lock := s.owned[backend]; lock != nil {
		_ = lock.Remove() // of a file that was removed
	}
	delete(s.owned, backend)
	maps.DeleteFunc(s.files, func(k kind, _ *specFile) bool { return k.backend == backend })
}

// release releases the locks of all specs.
func (s *Store) release() error {
	var errs []error
	for _, lock := range s.owned {
		if lock != nil {
			errs = append(errs, lock.Remove())
		}
	}
	s.owned = nil
	return errors.Join(errs...)
}

// load reads the specs that an earlier run left of a backend.
func (s *Store) load(backend string) error {
	for _, separator := range []string{"-", "_"} {
		if _, err := checkpoint.Sweep(s.opts.Dir, filePrefix+backend+separator); err != nil {
			s.log.Warn("cannot remove temporary files of an earlier run", "error", err)
		}
	}
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if k, ok := kindOfFile(entry.Name()); ok && k.backend == backend && !entry.IsDir() {
			s.loadFile(filepath.Join(s.opts.Dir, entry.Name()))
		}
	}
	if adopted := s.devices(backend); len(adopted) > 0 && s.opts.Adopted != nil {
		s.opts.Adopted(adopted...)
	}
	return nil
}

// loadFile loads a spec, or moves a damaged one aside. A foreign file takes part in the search
// for conflicts.
func (s *Store) loadFile(path string) {
	f, err := loadFile(path)
	if err == nil {
		s.files[f.kind] = f
		return
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errForeign) {
		return
	}
	const meaning = "its devices get their definitions back when their backend reports them"
	moved := checkpoint.Quarantine(path)
	s.log.Warn("damaged CDI file; "+moved, "file", path, "error", err)
	s.notes = append(s.notes, fmt.Sprintf("CDI: %s is damaged (%v); %s; %s", path, err, moved, meaning))
}

// devices returns the devices of a backend that have a definition, sorted, each once.
func (s *Store) devices(backend string) []inventory.Key {
	var all []inventory.Key
	for k, f := range s.files {
		if k.backend == backend {
			for name := range f.defs {
				all = append(all, k.key(deviceID(name)))
			}
		}
	}
	slices.SortFunc(all, inventory.Key.Compare)
	return slices.Compact(all)
}

// contestedNotes returns the problems with specs that another agent has locked.
func (s *Store) contestedNotes() []string {
	return slices.Sorted(maps.Values(s.contested))
}
