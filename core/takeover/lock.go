package takeover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHeld is in the error of an attempt to lock what another process has.
var ErrHeld = errors.New("another agent")

// Lock takes the directory that a lock file is in, for this process. The kernel
// frees it when the process ends, however it ends. The error is an [ErrHeld] that
// names the holder if there is one. A link, or anything else than a file of its own, is
// refused, and left as it is.
func Lock(path string) (release func() error, err error) {
	file, err := openLock(path)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := make([]byte, 256)
		n, _ := file.ReadAt(holder, 0) // for the error only
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (%s) runs with the directory %s", ErrHeld, strings.TrimSpace(string(holder[:n])), filepath.Dir(path))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(self()+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), file.Close())
	}
	return file.Close, nil
}

// CheckHolder returns an [ErrNoAgent] that names the process which has the lock of a
// directory, if that process is known and not an agent.
func CheckHolder(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil // then nobody has it, or Lock reports why not
	}
	defer func() { _ = file.Close() }() // only read: nothing can be lost
	if err := checkProcess(holderOf(file)); err != nil {
		return fmt.Errorf("the lock of the directory %s: %w", dir, err)
	}
	return nil
}

// openLock opens a lock file, or creates it. It does not follow a link, and does not wait
// for the other end of a pipe.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link: remove it", path)
	}
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	switch err := unix.Fstat(int(file.Fd()), &stat); {
	case err != nil:
		return nil, errors.Join(err, file.Close())
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.Join(fmt.Errorf("%s is not a regular file: remove it", path), file.Close())
	case stat.Nlink > 1:
		return nil, errors.Join(fmt.Errorf("%s has another name, as a hard link: remove it", path), file.Close())
	}
	return file, nil
}

// FileLock is a lock file that this process has locked.
type FileLock struct {
	path string
	file *os.File
}

// LockFile creates a lock file and locks it. Unlike that of [Lock] it may be in a directory
// that others clean up: see [FileLock.Holds]. The error is an [ErrHeld] if another process
// has locked it, with that process's ID if procfs has it.
func LockFile(path string) (*FileLock, error) {
	file, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w%s has locked %s", ErrHeld, holder(file), path)
		} else {
			err = fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, errors.Join(err, file.Close())
	}
	lock := &FileLock{path: path, file: file}
	if !lock.Holds() { // its holder removed it in between
		return nil, errors.Join(fmt.Errorf("%w has just released %s", ErrHeld, path), file.Close())
	}
	return lock, nil
}

// holder is who has locked a file, to come after a noun: " (pid 12)"; "" if procfs does not
// tell, as of a process outside the container.
func holder(file *os.File) string {
	if pid := holderOf(file); pid > 0 {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

// holderOf returns the ID of the process that has locked a file (proc_locks(5)); 0 if it is
// not known, such as for a process in another PID namespace.
func holderOf(file *os.File) int {
	var stat unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Fstat(int(file.Fd()), &stat) != nil {
		return 0
	}
	// 1: FLOCK  ADVISORY  WRITE 17942 fe:00:9994208 0 EOF
	what := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != what {
			continue
		}
		if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}

// Holds reports whether the locked file is still the one at its path. If it was removed,
// another process may have locked a new one.
func (l *FileLock) Holds() bool {
	taken, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.path)
	return err == nil && os.SameFile(taken, there)
}

// Release removes the file, if it is still at its path and can be removed, and releases the
// lock.
func (l *FileLock) Release() error {
	if l.Holds() {
		_ = os.Remove(l.path) // a file that cannot be removed is unlocked all the same
	}
	return l.file.Close()
}

// self is this process in words. In a container the host name is the pod's.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host name"
	}
	return fmt.Sprintf("pid %d, %s", os.Getpid(), host)
}
