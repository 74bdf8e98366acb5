package health

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

const (
	maxQuarantined = 5
	minRetry       = time.Second
	maxRetry       = time.Minute
	// idleShare is how many times as long as a write took the disk then rests, so
	// that a backend that flaps without end costs a tenth of the disk's time.
	idleShare = 9
)

// stateFile reads and writes the file, and knows how that went. All methods but
// currentNotes are for the goroutine that judges.
type stateFile struct {
	path, bootID string
	now          func() time.Time
	log          *slog.Logger
	// replace writes the whole file atomically.
	replace func(path string, data []byte) error

	saved     uint64 // the version of the records that is on disk
	notBefore time.Time
	failures  int

	mu       sync.Mutex
	opened   []string // notes from opening; they stay
	writeErr error    // of the latest write
}

// save writes the state if it changed, or if now is too early returns when to
// come again. The lock is not held over the write.
func (j *Judge) save(force bool) (again time.Time) {
	f, now := j.file, j.now()
	j.mu.Lock()
	version := j.version
	if version == f.saved {
		j.mu.Unlock()
		return time.Time{}
	}
	if !force && f.notBefore.After(now) {
		j.mu.Unlock()
		return f.notBefore
	}
	data, err := encodeState(f.bootID, j.records)
	j.mu.Unlock()

	if err == nil {
		err = f.replace(f.path, data)
	}
	return f.written(version, now, err)
}

// written takes the result of a write that started at start.
func (f *stateFile) written(version uint64, start time.Time, err error) (again time.Time) {
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
		f.notBefore = now.Add(idleShare * now.Sub(start))
		return time.Time{}
	}
	if !failed {
		f.log.Error("health state not written; faults would be forgotten in a restart", "path", f.path, "err", err)
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
	if f.writeErr != nil {
		notes = append(notes, fmt.Sprintf("health state is not being saved, so that a restart would forget faults: %v; make room or repair the disk",
			f.writeErr))
	}
	return notes
}

func (f *stateFile) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	f.log.Warn(note)
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
	f.sweep()
	data, err := readFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[inventory.Key]*record{}, false
	}
	var s state
	if err == nil {
		s, err = decodeState(data)
	}
	if err != nil {
		f.quarantine(err)
		return map[inventory.Key]*record{}, true
	}
	if s.BootID != f.bootID {
		f.log.Info("the machine was booted; faults of the last boot are forgotten", "devices", len(s.Devices))
		return map[inventory.Key]*record{}, true
	}
	return s.restore(f.now()), false
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	var data bytes.Buffer
	n, err := data.ReadFrom(io.LimitReader(file, maxStateFile+1))
	if err == nil && n > maxStateFile {
		err = fmt.Errorf("it is larger than %d bytes", maxStateFile)
	}
	return data.Bytes(), err
}

// quarantine moves the file out of the way, for whoever wants to look at it. Of
// several, the newest are kept.
func (f *stateFile) quarantine(cause error) {
	target := ""
	var oldest time.Time
	for n := 1; n <= maxQuarantined; n++ {
		name := fmt.Sprintf("%s.corrupt-%d", f.path, n)
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			target = name
			break
		}
		if err == nil && (target == "" || info.ModTime().Before(oldest)) {
			target, oldest = name, info.ModTime()
		}
	}
	if err := os.Rename(f.path, target); err != nil {
		f.note("the health state %s cannot be used: %v; nor can it be moved away: %v; faults from before are forgotten",
			f.path, cause, err)
		return
	}
	f.note("the health state %s could not be used: %v; it was moved to %s and faults from before are forgotten",
		f.path, cause, target)
}

// sweep removes temporary files that a crash left behind.
func (f *stateFile) sweep() {
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return
	}
	for _, e := range entries {
		if ok, err := filepath.Match(tempPattern(f.path), e.Name()); err != nil || !ok || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(filepath.Dir(f.path), e.Name())); err != nil {
			f.log.Warn("temporary file not removed", "path", e.Name(), "err", err)
		}
	}
}

func tempPattern(path string) string { return "." + filepath.Base(path) + ".tmp-*" }

// replaceFile writes data to path so that after a crash at any point the file has
// either the old content or the new. Nothing else is left behind if it fails.
func replaceFile(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), tempPattern(path)) // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(temp.Name())))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("make %s durable: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("make %s durable: %w", path, err)
	}
	return nil
}
