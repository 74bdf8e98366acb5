package trap

import (
	"bytes"
	"encoding/binary"
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

// Trap is a filter, and who listens to it.
type Trap struct {
	filter  []byte
	handler func(*Call)
	socket  string
	stop    func() error
	running sync.WaitGroup
}

// Call is a system call that waits for its answer.
type Call struct {
	// Thread is who calls; Number and Arguments are those of the architecture.
	Thread    int
	Number    int
	Arguments [6]uint64

	id uint64
	fd int
}

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

// Start listens for commands that are wrapped. The handler is called concurrently, with
// each system call of these numbers; the kernel makes the call when it has returned. Close must
// follow.
func Start(numbers []int, handler func(*Call)) (*Trap, error) {
	dir, err := os.MkdirTemp("", "trap")
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := binary.Write(&text, binary.NativeEndian, calls(numbers)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	t := &Trap{filter: text.Bytes(), handler: handler, socket: filepath.Join(dir, "s")}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.socket, Net: "unix"})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// Who waits for descriptors wakes up when the other end is closed.
	wake, wakeUp, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, listener.Close(), os.RemoveAll(dir))
	}
	t.running.Go(func() { t.accept(listener, wake) })
	t.stop = func() error {
		err := errors.Join(wakeUp.Close(), listener.Close(), os.RemoveAll(dir))
		t.running.Wait()
		return errors.Join(err, wake.Close())
	}
	return t, nil
}

// Close ends it when all handlers have returned. Commands that still run get errors.
func (t *Trap) Close() error { return t.stop() }

// accept ends when the socket is closed.
func (t *Trap) accept(listener *net.UnixListener, wake *os.File) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		if fd, err := t.admit(conn); err == nil {
			t.running.Go(func() { t.watch(fd, wake) })
			// Now the command may begin.
			_, _ = conn.Write([]byte{1})
		}
		_ = conn.Close()
	}
}

// admit gives a wrapped command its filter, and takes the descriptor by which that is
// listened to.
func (t *Trap) admit(conn *net.UnixConn) (int, error) {
	if _, err := conn.Write(append(binary.NativeEndian.AppendUint32(nil, uint32(len(t.filter))), t.filter...)); err != nil {
		return 0, err
	}
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
// until no process has the filter any more or the trap is closed.
func (t *Trap) watch(fd int, wake *os.File) {
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
		answering.Go(func() {
			t.answer(&Call{Thread: int(n.pid), Number: int(n.number), Arguments: n.args, id: n.id, fd: fd})
		})
	}
}

// answer has one system call made when its handler has returned.
func (t *Trap) answer(c *Call) {
	t.handler(c)
	r := &response{id: c.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	// It fails if the caller was killed meanwhile; what was done is done.
	_ = notify(c.fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// Waits reports whether the caller still waits, so that no other has its number.
func (c *Call) Waits() bool {
	id := c.id
	return notify(c.fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == 0
}

// Memory is that of the caller.
func (c *Call) Memory() memory { return memory{c.Thread, c.Waits} }

// Descriptor is where procfs has the file that the first argument is.
func (c *Call) Descriptor() string {
	return fmt.Sprintf("/proc/%d/fd/%d", c.Thread, int32(c.Arguments[0]))
}

// Process is the process of who calls; 0 if it has gone.
func (c *Call) Process() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Thread))
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
