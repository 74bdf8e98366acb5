package fpgadevice

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif of include/uapi/linux/seccomp.h.
type notification struct {
	id     uint64
	pid    uint32
	flags  uint32
	number int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// listen waits for wrapped commands, which send the descriptor by which their filter
// is listened to.
func (d *Device) listen() error {
	dir, err := os.MkdirTemp("", "fpga")
	if err != nil {
		return err
	}
	d.socket = filepath.Join(dir, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.socket, Net: "unix"})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	// Who waits for descriptors wakes up when the other end is closed.
	wake, wakeUp, err := os.Pipe()
	if err != nil {
		return errors.Join(err, listener.Close(), os.RemoveAll(dir))
	}
	d.running.Go(func() { d.accept(listener, wake) })
	d.stop = func() error {
		err := errors.Join(wakeUp.Close(), listener.Close(), os.RemoveAll(dir))
		d.running.Wait()
		return errors.Join(err, wake.Close())
	}
	return nil
}

// accept ends when the socket is closed.
func (d *Device) accept(listener *net.UnixListener, wake *os.File) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		if fd, err := receive(conn); err == nil {
			d.running.Go(func() { d.watch(fd, wake) })
			// Now the command may begin.
			_, _ = conn.Write([]byte{1})
		}
		_ = conn.Close()
	}
}

// receive takes the descriptor from a wrapped command.
func receive(conn *net.UnixConn) (int, error) {
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("%d control messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("%d descriptors: %w", len(fds), err)
	}
	return fds[0], nil
}

// watch answers the system calls that a filter hands over, each in a goroutine of its own,
// until no process has the filter any more or the device is closed.
func (d *Device) watch(fd int, wake *os.File) {
	var answering sync.WaitGroup
	defer func() {
		answering.Wait()
		_ = unix.Close(fd)
	}()
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake.Fd())}}
	for {
		switch _, err := unix.Poll(poll, -1); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil, poll[1].Revents != 0, poll[0].Revents&unix.POLLIN == 0:
			return
		}
		n := &notification{}
		if errno := notify(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n)); errno != 0 {
			continue // the caller was killed meanwhile
		}
		answering.Go(func() { d.answer(fd, n) })
	}
}

// answer answers one system call.
func (d *Device) answer(fd int, n *notification) {
	valid := func() bool {
		id := n.id
		return notify(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == 0
	}
	r := &response{id: n.id}
	c := call{memory: memory{int(n.pid), valid}}
	switch n.number {
	case unix.SYS_OPENAT:
		if d.openStore(fd, n, c.memory) {
			return
		}
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	case unix.SYS_WRITE:
		r.value, r.errno, r.flags = d.writeStore(n, c.memory)
	default:
		r.errno, r.flags = d.control(n, c)
	}
	if !valid() {
		return
	}
	// It fails if the caller was killed meanwhile; what the card did, it did.
	_ = notify(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// control answers an ioctl: the number of an error, or what else the kernel is to do.
func (d *Device) control(n *notification, c call) (errno int32, flags uint32) {
	c.pid = processOf(n.pid)
	path, err := os.Readlink(descriptor(n))
	live, gone := strings.CutSuffix(d.path(path), " (deleted)")
	switch {
	case !c.memory.valid():
		return 0, 0
	case err != nil, filepath.Dir(live) != d.dev:
		return 0, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE // no node of ours: as the kernel says
	case gone:
		return -int32(unix.EINVAL), 0
	}
	c.node, c.request, c.address = filepath.Base(live), uint32(n.args[1]), n.args[2]
	return -int32(d.serve(c)), 0
}

// descriptor is where procfs has the file that the first argument is.
func descriptor(n *notification) string {
	return fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[0]))
}

// processOf is the process of a thread; 0 if it has gone.
func processOf(thread uint32) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nTgid:")
	line, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return pid
}

// notify is an ioctl of the filter's descriptor, made again when a signal interrupts it.
func notify(fd int, request uint, argument unsafe.Pointer) syscall.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(argument))
		if errno != unix.EINTR {
			return errno
		}
	}
}
