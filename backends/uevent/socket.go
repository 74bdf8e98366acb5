package uevent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group of the kernel's own messages; udev uses another.
const kernelGroup = 1

// socket is the kernel as a source. The runtime's poller waits for it, so it blocks no thread.
type socket struct {
	file *os.File
	raw  syscall.RawConn
}

func open() (*socket, error) {
	fail := func(err error) (*socket, error) {
		return nil, fmt.Errorf("listen to the kernel's uevents: %w", err)
	}
	if isolated(uidMap) {
		return fail(errors.New("this process is in a user namespace of its own, which receives none"))
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fail(os.NewSyscallError("socket", err))
	}
	if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		_ = unix.Close(fd)
		return fail(os.NewSyscallError("bind", err))
	}
	file := os.NewFile(uintptr(fd), "uevents")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return fail(err)
	}
	return &socket{file, raw}, nil
}

// uidMap is the map of user IDs of this process.
const uidMap = "/proc/self/uid_map"

// isolated reports whether a map of user IDs is that of another user namespace than the initial one,
// whose map has all IDs (user_namespaces(7)).
func isolated(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && !slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

// Receive implements [Source].
func (s *socket) Receive(buf []byte) (int, error) {
	for {
		var n, flags int
		var from unix.Sockaddr
		var failed error
		err := s.raw.Read(func(fd uintptr) bool {
			n, _, flags, from, failed = unix.Recvmsg(int(fd), buf, nil, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return 0, fmt.Errorf("receive a uevent: %w", err)
		case errors.Is(failed, unix.EINTR):
		case errors.Is(failed, unix.ENOBUFS):
			return 0, ErrMissed
		case failed != nil:
			return 0, fmt.Errorf("receive a uevent: %w", os.NewSyscallError("recvmsg", failed))
		case !byKernel(from):
		case flags&unix.MSG_TRUNC != 0:
			return 0, ErrMissed
		default:
			return n, nil
		}
	}
}

// byKernel reports whether the kernel sent a message.
func byKernel(from unix.Sockaddr) bool {
	sender, ok := from.(*unix.SockaddrNetlink)
	return ok && sender.Pid == 0
}

// Close implements [Source].
func (s *socket) Close() error { return s.file.Close() }
