package health

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

const (
	minRetry = time.Second
	maxRetry = time.Minute
	// reserveSuffix is that of the file which reserves room for a write; minReserve is its
	// least size, in bytes: some hundred devices with a fault each.
	reserveSuffix = ".reserve"
	minReserve    = 128 << 10
)

// stateFile is the file of all faults. Judge writes it before it returns, without a sync:
// the file must survive the end of this process, not a power cut, because faults of an
// earlier boot do not count. The Judge's mu guards the fields below it.
type stateFile struct {
	path, bootID string
	log          *slog.Logger
	// write is checkpoint.Writer.Write, but for tests.
	write func(path, magic string, payload []byte) error

	saved    uint64 // version of the records in the file
	failures int    // consecutive failed writes
	retryAt  time.Time
	err      error    // of the latest write
	notes    []string // problems found by open
}

// save writes the state if it changed since the latest write. It returns when to try again
// after a failed write; zero means never. force writes before that time. It holds no lock
// while it writes, so that only the caller waits for the disk.
func (j *Judge) save(force bool) (retryAt time.Time) {
	f := j.file
	j.mu.Lock()
	version := j.version
	if version == f.saved {
		j.mu.Unlock()
		return time.Time{}
	}
	if !force && j.now().Before(f.retryAt) {
		defer j.mu.Unlock()
		return f.retryAt
	}
	s := state{BootID: f.bootID, Devices: storedDevices(j.records)}
	j.mu.Unlock()

	payload, err := s.encode()
	if err == nil {
		err = f.replace(payload)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return f.written(version, err, j.now())
}

// replace writes the file. If the disk is full, the reserve makes room for it.
func (f *stateFile) replace(payload []byte) error {
	err := f.write(f.path, stateMagic, payload)
	if errors.Is(err, unix.ENOSPC) && os.Remove(f.path+reserveSuffix) == nil {
		err = f.write(f.path, stateMagic, payload)
	}
	if err != nil {
		return err
	}
	f.reserve(2 * int64(len(payload)))
	return nil
}

// reserve allocates at least so many bytes beside the state file. A file that is replaced
// takes its room twice for a moment, and an agent is likely to be restarted while its disk is
// full: without the room it would forget the faults that came since.
func (f *stateFile) reserve(size int64) {
	path, size := f.path+reserveSuffix, max(size, minReserve)
	if reserved(path) >= size {
		return
	}
	_ = os.Remove(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(file.Fd()), 0, 0, size), file.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err != nil {
		f.log.Debug("cannot reserve room for the health state", "path", path, "error", err)
	}
}

// reserved returns the size of the reserve; none if something else is there.
func reserved(path string) int64 {
	file, err := checkpoint.Open(path, os.O_WRONLY, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// written records the result of a write of the records of that version.
func (f *stateFile) written(version uint64, err error, now time.Time) (retryAt time.Time) {
	failedBefore := f.err != nil
	if f.err = err; err == nil {
		if failedBefore {
			f.log.Info("health state is saved again", "path", f.path)
		}
		f.saved, f.failures, f.retryAt = version, 0, time.Time{}
		return time.Time{}
	}
	if !failedBefore {
		f.log.Error("health state not saved", "path", f.path, "error", err)
	}
	f.failures++
	f.retryAt = now.Add(backoff.After(f.failures, minRetry, maxRetry))
	return f.retryAt
}

// problems returns what an operator must know of the file.
func (f *stateFile) problems() []string {
	problems := append([]string(nil), f.notes...)
	if f.err != nil {
		problems = append(problems, fmt.Sprintf("health state is not being saved, so a restart of the agent would forget faults: %v; make room or repair the disk", f.err))
	}
	return problems
}

func (f *stateFile) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	f.log.Warn("health state", "problem", note)
	f.notes = append(f.notes, note)
}

// open reads the file and removes temporary files of an earlier run. It reports whether the
// file must be written even if no fault comes or goes.
func (f *stateFile) open(now time.Time) (records map[inventory.Key]*record, outdated bool) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		f.note("the directory of the health state cannot be created: %v", err)
	}
	if _, err := checkpoint.Sweep(filepath.Dir(f.path), filepath.Base(f.path)); err != nil {
		f.log.Warn("cannot remove temporary files of an earlier run", "error", err)
	}
	f.reserve(0)
	payload, err := checkpoint.Read(f.path, stateMagic)
	if errors.Is(err, fs.ErrNotExist) {
		return map[inventory.Key]*record{}, false
	}
	var s state
	if err == nil {
		s, err = decodeState(payload)
	}
	if err != nil {
		f.quarantine(err)
		return map[inventory.Key]*record{}, true
	}
	if s.BootID != f.bootID {
		f.log.Info("the machine was booted, faults of the boot before are dropped", "devices", len(s.Devices))
		return map[inventory.Key]*record{}, true
	}
	return s.restore(now), false
}

// quarantine moves a file aside that cannot be read.
func (f *stateFile) quarantine(cause error) {
	f.note("the health state %s cannot be used: %v; %s, and faults from before are forgotten", f.path, cause, checkpoint.Quarantine(f.path))
}
