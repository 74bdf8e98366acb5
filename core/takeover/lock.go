package takeover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// ErrHeld is in the error of an attempt to lock what another process has locked.
var ErrHeld = errors.New("another agent")

// LockOwner is the process that has locked a file, as it describes itself in that file.
type LockOwner struct {
	// PID is that of its own PID namespace; 0 if it is not known.
	PID int `json:"pid"`
	// Host is its host name, in a container the pod's.
	Host string `json:"host,omitempty"`
	// Since is when it locked the file.
	Since time.Time `json:"since"`
	// Connected: kubelet is connected to it. For the lock of a state directory.
	Connected bool `json:"connected,omitempty"`
}

// String returns the owner in parentheses, to follow a noun; "" if it is not known.
func (o LockOwner) String() string {
	if o.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d on %s)", o.PID, o.Host)
}

// maxOwner bounds what is read of a lock file, in bytes.
const maxOwner = 1024

// readOwner returns the owner that a lock file names.
func readOwner(file *os.File) *LockOwner {
	owner := &LockOwner{}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxOwner))
	if err != nil || json.Unmarshal(text, owner) != nil {
		return &LockOwner{}
	}
	return owner
}

// OwnerOf returns the process that has locked the file at path; nil if none has.
func OwnerOf(path string) *LockOwner {
	file, err := checkpoint.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // only read
	// For this moment an attempt to lock the file fails, and must be repeated.
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	return readOwner(file)
}

// FileLock is a file that this process has locked. The kernel unlocks it when the process
// ends, however it ends.
type FileLock struct {
	path  string
	file  *os.File
	since time.Time
}

// LockFile locks a file, which is created if it does not exist. The error is an [ErrHeld]
// that names the owner if another process has locked it. A link, or anything else than a
// file of its own, is refused and not changed.
func LockFile(path string) (*FileLock, error) {
	file, err := checkpoint.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, checkpoint.ErrIrregular) {
		err = fmt.Errorf("%w: remove it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w%s has locked %s", ErrHeld, readOwner(file), path)
		} else {
			err = fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, errors.Join(err, file.Close())
	}
	lock := &FileLock{path: path, file: file, since: time.Now().UTC().Round(time.Second)}
	if !lock.Holds() { // its owner removed it in between
		return nil, errors.Join(fmt.Errorf("%w has just released %s", ErrHeld, path), file.Close())
	}
	lock.describe(false)
	return lock, nil
}

// describe writes this process into the file. A full disk must not keep an agent from
// starting: without the text errors do not name the owner, and the agent before this one
// answers kubelet until its limit.
func (l *FileLock) describe(connected bool) {
	host, _ := os.Hostname() // for people only
	text, err := json.Marshal(LockOwner{PID: os.Getpid(), Host: host, Since: l.since, Connected: connected})
	if l.file.Truncate(0) == nil && err == nil {
		_, _ = l.file.WriteAt(append(text, '\n'), 0)
	}
}

// Holds reports whether the locked file is still the one at its path. If it was removed,
// another process may have locked a new one.
func (l *FileLock) Holds() bool {
	locked, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.path)
	return err == nil && os.SameFile(locked, there)
}

// Release empties the file, so that it does not describe the next owner, and unlocks it.
func (l *FileLock) Release() error { return errors.Join(l.file.Truncate(0), l.file.Close()) }

// Remove removes the file, if it is still at its path and can be removed, and unlocks it.
func (l *FileLock) Remove() error {
	if l.Holds() {
		_ = os.Remove(l.path) // a file that cannot be removed is unlocked all the same
	}
	return l.Release()
}
