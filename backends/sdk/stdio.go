package sdk

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// stdio keeps three writers of standard output apart.
//
// The handshake must reach the core, and nothing else may: a vendor's C library
// that writes to file descriptor 1 would break it before, and would fill a pipe
// that nobody reads and block after. go-plugin prints the handshake to os.Stdout
// and then replaces os.Stdout and os.Stderr by pipes, which it drains only while
// the core reads them over gRPC. So:
//
//	start       fd 1 -> /dev/null    os.Stdout -> copy of the old fd 1
//	go-plugin   prints the handshake to the copy; os.Stdout, os.Stderr -> its pipes
//	first call  os.Stdout -> fd 1    os.Stderr -> fd 2
type stdio struct {
	out, err  *os.File // as the process got them: fd 1 and fd 2
	handshake *os.File // copy of the old fd 1

	once sync.Once
	// go-plugin's pipes. Closing them, which the garbage collector would do,
	// sends its copy goroutines into a busy loop.
	pipes [2]*os.File
}

// captureStdout points fd 1 to /dev/null and os.Stdout to where fd 1 was.
func captureStdout() (*stdio, error) {
	// Not inherited by programs that the backend runs: they would hold the
	// core's pipe open.
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("keep standard output for the handshake: %w", err)
	}
	s := &stdio{out: os.Stdout, err: os.Stderr, handshake: os.NewFile(uintptr(fd), "handshake")}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("point standard output to %s: %w", os.DevNull, err)
	}
	defer func() { _ = null.Close() }() // nothing was written to it
	if err := unix.Dup2(int(null.Fd()), 1); err != nil {
		return nil, fmt.Errorf("point standard output to %s: %w", os.DevNull, err)
	}
	os.Stdout = s.handshake
	return s, nil
}

// giveBack restores os.Stdout and os.Stderr. It runs in the first gRPC call,
// which is after go-plugin replaced them and before the backend's own code runs.
func (s *stdio) giveBack() {
	s.once.Do(func() {
		s.pipes = [2]*os.File{os.Stdout, os.Stderr}
		os.Stdout, os.Stderr = s.out, s.err
	})
}
