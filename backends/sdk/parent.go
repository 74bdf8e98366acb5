package sdk

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// parentPoll is the interval of checks whether the parent still runs, where the kernel does not
// report its end.
const parentPoll = time.Second

// orphaned returns a channel that is closed when the process has another parent than at the
// start. The core also has the kernel send a signal at its death; this is for where it could
// not.
func orphaned(parent int, stop <-chan struct{}) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		over, ok := awaitEnd(parent, stop)
		if !ok {
			over = awaitOther(parent, parentPoll, stop)
		}
		if over {
			close(gone)
		}
	}()
	return gone
}

// awaitEnd waits for the end of the parent, and reports whether it came before stop; ok is false
// if the kernel cannot report it (before Linux 5.10, or forbidden). Checking once a second would
// be a good part of what an idle backend costs.
func awaitEnd(parent int, stop <-chan struct{}) (over, ok bool) {
	fd, err := unix.PidfdOpen(parent, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false, false
	}
	file := os.NewFile(uintptr(fd), "parent")
	defer func() { _ = file.Close() }() // nothing was written to it
	if os.Getppid() != parent {
		return true, true // and its PID may already be another process's
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return false, false
	}
	ended := make(chan bool, 1)
	go func() {
		// It returns when the parent has ended, or the file is closed.
		err := conn.Read(func(fd uintptr) bool {
			ready, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return ready > 0
		})
		ended <- err == nil
	}()
	select {
	case over := <-ended:
		return over, over
	case <-stop:
		return false, true
	}
}

// awaitOther is awaitEnd by polling: the kernel gives an orphan to init or to a subreaper.
func awaitOther(parent int, every time.Duration, stop <-chan struct{}) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for os.Getppid() == parent {
		select {
		case <-stop:
			return false
		case <-tick.C:
		}
	}
	return true
}
