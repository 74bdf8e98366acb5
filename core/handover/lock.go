package handover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHeld is in the error of an attempt to lock what another process has.
var ErrHeld = errors.New("another agent")

// Lock takes the directory that a lock file is in, for this process. The kernel
// frees it when the process ends, however it ends. The error is an [ErrHeld] that
// names the holder if there is one.
func Lock(path string) (release func() error, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path) // for the sentence only
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (%s) runs with the directory %s", ErrHeld, strings.TrimSpace(string(holder)), filepath.Dir(path))
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

// LockDir takes a directory that has no room for a lock file, such as one that others
// read or that is read-only, like [Lock]. The error is an [ErrHeld] if another process
// has it; who that is, is not known.
func LockDir(dir string) (release func() error, err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrHeld
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), file.Close())
	}
	return file.Close, nil
}

// self is this process in words. In a container the host name is the pod's.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host name"
	}
	return fmt.Sprintf("pid %d, %s", os.Getpid(), host)
}
