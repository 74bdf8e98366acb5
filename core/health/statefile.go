package health

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

const (
	minRetry = time.Second
	maxRetry = time.Minute
	// idleShare is how many times as long as a write took the disk then rests, so
	// that a backend that flaps without end costs a tenth of the disk's time.
	idleShare = 9
)

// stateFile decides when the file is written, keeps the journal of what changed since,
// and knows how that went.
type stateFile struct {
	path, bootID string
	now          func() time.Time
	log          *slog.Logger
	// write is checkpoint.Write, but for tests.
	write func(path, magic string, payload []byte) error

	// older says that the file is of a version that knew of no journal.
	older bool

	// order is held while a change is made to the records and entered in the journal, so
	// that who writes the file knows which frames it covers. It is taken before the
	// Judge's mu, and guards the journal, which is nil while it cannot be had.
	order      sync.Mutex
	journal    *journal
	lastNumber uint64 // of a journal that is closed, or could not be opened

	// writing is held while the file is written, and guards what follows. It is taken
	// before order.
	writing   sync.Mutex
	saved     uint64 // the version of the records that is on disk
	notBefore time.Time
	failures  int

	mu       sync.Mutex
	opened   []string // notes from opening; they stay
	writeErr error    // of the latest write
	// unnoted is why the latest change is not in the journal either.
	unnoted error
}

// save writes the state if it changed, or if now is too early returns when to
// come again. Nobody else waits for the write.
func (j *Judge) save(force bool) (again time.Time) {
	f := j.file
	f.writing.Lock()
	defer f.writing.Unlock()
	now := j.now() // what another write took is no part of this one
	f.order.Lock()
	j.mu.Lock()
	version := j.version
	if version == f.saved || !force && f.notBefore.After(now) {
		j.mu.Unlock()
		f.order.Unlock()
		if version == f.saved {
			return time.Time{}
		}
		return f.notBefore
	}
	covered := f.number()
	devices := storedDevices(j.records)
	j.mu.Unlock()
	f.order.Unlock()

	payload, err := state{BootID: f.bootID, Journal: &covered, Devices: devices}.encode()
	if err == nil {
		err = f.write(f.path, stateMagic, payload)
	}
	return f.written(version, covered, now, err)
}

// written takes the result of a write that started at start, of the records of that
// version and with them that many frames of the journal. The caller holds writing.
func (f *stateFile) written(version, covered uint64, start time.Time, err error) (again time.Time) {
	now := f.now()
	f.mu.Lock()
	failed := f.writeErr != nil
	f.writeErr = err
	f.mu.Unlock()
	if err == nil {
		if failed {
			f.log.Info("health state is written again", "path", f.path)
		}
		f.saved, f.failures = version, 0
		if !f.restartJournal(covered) {
			f.saved-- // the file does not cover what is in that journal
		}
		f.notBefore = now.Add(idleShare * now.Sub(start))
		return time.Time{}
	}
	if !failed {
		f.log.Error("health state not written", "path", f.path, "err", err)
	}
	wait := min(minRetry<<min(f.failures, 16), maxRetry)
	wait += rand.N(wait / 4) // jitter, so that a node's services do not retry in step
	f.failures++
	f.notBefore = now.Add(wait)
	return f.notBefore
}

func (f *stateFile) lastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeErr
}

func (f *stateFile) currentNotes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	notes := append([]string(nil), f.opened...)
	switch {
	case f.writeErr != nil && f.unnoted != nil:
		notes = append(notes, fmt.Sprintf("health state is not being saved, so that a restart would forget faults: %v; nor is the journal: %v; make room or repair the disk",
			f.writeErr, f.unnoted))
	case f.writeErr != nil:
		notes = append(notes, fmt.Sprintf("health state is not being saved: %v; what changes is kept in its journal meanwhile: make room or repair the disk",
			f.writeErr))
	}
	return notes
}

func (f *stateFile) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	f.log.Warn("health state", "note", note)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = append(f.opened, note)
}

// open reads the file and cleans up around it. What it found is stale if it must
// be written anew even if no fault comes or goes.
func (f *stateFile) open() (records map[inventory.Key]*record, stale bool) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		f.note("the directory of the health state cannot be made: %v", err)
	}
	if _, err := checkpoint.Sweep(filepath.Dir(f.path), filepath.Base(f.path)); err != nil {
		f.log.Warn("remove temporary files of an earlier run", "err", err)
	}
	s, stale := f.read()
	var after uint64
	if s.Journal != nil {
		after = *s.Journal
	}
	opened, frames, err := openJournal(f.path+journalSuffix, after)
	if err != nil {
		f.unnoted, f.lastNumber = err, after
		f.log.Warn("the journal of faults cannot be used: one that comes in the moment in which this process is killed may be forgotten", "err", err)
	}
	if f.journal = opened; len(frames) > 0 && !f.older {
		s, stale = s.follow(frames), true
	}
	return s.restore(f.now()), stale
}

// read is what the state file says. It is stale if it must be written anew even if no
// fault comes or goes.
func (f *stateFile) read() (_ state, stale bool) {
	nothing := state{BootID: f.bootID}
	payload, err := checkpoint.Read(f.path, stateMagic)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing, false
	}
	var s state
	if err == nil {
		s, err = decodeState(payload)
	}
	if err != nil {
		f.quarantine(err)
		return nothing, true
	}
	if s.BootID != f.bootID {
		f.log.Info("the machine was booted; faults of the last boot are forgotten", "devices", len(s.Devices))
		return nothing, true
	}
	f.older = s.Journal == nil
	return s, f.older
}

// number is that of the journal's last frame. The caller holds order.
func (f *stateFile) number() uint64 {
	if f.journal == nil {
		return f.lastNumber
	}
	return f.journal.number
}

// enter writes a frame to the journal, and reports whether it is there. The caller holds
// order.
func (f *stateFile) enter(frame *state, whole func() ([]byte, error)) bool {
	if frame == nil {
		return true
	}
	err := f.unnoted
	if f.journal != nil {
		var payload []byte
		if payload, err = frame.encode(); err == nil {
			err = f.journal.add(payload, whole)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unnoted = err
	return err == nil
}

// restartJournal has the journal begin anew when the state file has been written that
// covers the frames up to that number. It goes on where it is while there are newer ones.
// One that could not be had before may be had now: the disk works. It reports whether
// nothing is in that which the file does not cover.
func (f *stateFile) restartJournal(covered uint64) bool {
	f.order.Lock()
	defer f.order.Unlock()
	if f.journal == nil {
		opened, frames, err := openJournal(f.path+journalSuffix, f.lastNumber)
		if err != nil {
			return true
		}
		f.journal = opened
		if len(frames) > 0 {
			return false
		}
	}
	if f.journal.number == covered {
		f.journal.rewind()
	}
	return true
}

// closeJournal is the end of it.
func (f *stateFile) closeJournal() error {
	f.order.Lock()
	defer f.order.Unlock()
	if f.journal == nil {
		return nil
	}
	f.lastNumber = f.journal.number
	err := f.journal.file.Close()
	f.journal = nil
	return err
}

// quarantine moves the file out of the way, for whoever wants to look at it.
func (f *stateFile) quarantine(cause error) {
	aside, err := checkpoint.Quarantine(f.path)
	if err != nil {
		f.note("the health state %s cannot be used: %v; nor can it be moved away: %v; faults from before are forgotten",
			f.path, cause, err)
		return
	}
	f.note("the health state %s could not be used: %v; it was moved to %s and faults from before are forgotten",
		f.path, cause, aside)
}
