package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// trap makes a process hang when it opens files: a seccomp filter sends a notification of each
// openat to this process, which lets the call continue or does not answer. It needs Linux 5.5
// and no privileges.
type trap struct {
	file *os.File // the filter's descriptor
	done chan struct{}

	mu    sync.Mutex
	roots []string // openat below these hangs
	held  chan string
}

// trapError is why a trap cannot be used on this machine.
type trapError struct{ error }

// architectures are the supported values of GOARCH.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// helpTrap sets the filter and executes the program.
func helpTrap(program string) error {
	unix.CloseOnExec(helperSocket)
	runtime.LockOSThread() // the filter applies to this thread
	fd, err := setFilter()
	if err != nil {
		_, _ = unix.Write(helperSocket, []byte(err.Error()))
		return err
	}
	if err := unix.Sendmsg(helperSocket, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return err
	}
	if n, err := unix.Read(helperSocket, make([]byte, 1)); n != 1 {
		return fmt.Errorf("wait for the check: %w", err)
	}
	return syscall.Exec(program, []string{program}, os.Environ())
}

// setFilter sets a filter that notifies of each openat, and returns its descriptor.
func setFilter() (int, error) {
	const load, equals, result = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	arch, known := architectures[runtime.GOARCH]
	if !known {
		return 0, fmt.Errorf("no seccomp filter exists for %s", runtime.GOARCH)
	}
	program := []unix.SockFilter{
		{Code: load, K: 4}, // arch, in struct seccomp_data
		{Code: equals, K: arch, Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
		{Code: load, K: 0}, // nr
		{Code: equals, K: unix.SYS_OPENAT, Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
		{Code: result, K: unix.SECCOMP_RET_USER_NOTIF},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(filter)))
	if errno != 0 {
		return 0, fmt.Errorf("set a seccomp filter: %w", errno)
	}
	return int(fd), nil
}

// newTrap receives the filter from a helper, and lets the helper execute the program.
func newTrap(helper *os.File) (*trap, error) {
	buffer, control := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
	n, controls, _, _, err := unix.Recvmsg(int(helper.Fd()), buffer, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, trapError{err}
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil || len(messages) != 1 {
		return nil, trapError{errors.New(string(buffer[:n]))}
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, trapError{errors.New("the helper sent no filter")}
	}
	t := &trap{file: os.NewFile(uintptr(fds[0]), "filter"), done: make(chan struct{}), held: make(chan string, 1)}
	go t.answer(fds[0])
	if _, err := helper.Write([]byte{0}); err != nil {
		return nil, trapError{err}
	}
	return t, nil
}

// hold makes all later openat calls below the roots hang. The channel gets the first path.
func (t *trap) hold(roots []string) <-chan string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.roots = roots
	return t.held
}

// notification is struct seccomp_notif of include/uapi/linux/seccomp.h, response struct
// seccomp_notif_resp.
type notification struct {
	id     uint64
	pid    uint32
	flags  uint32
	number int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// answer answers notifications until no process with the filter is left.
func (t *trap) answer(fd int) {
	defer close(t.done)
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if poll[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			return
		}
		if poll[0].Revents == 0 {
			continue
		}
		var n notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // the caller has died, or a signal interrupted this call
		}
		if t.holds(&n) {
			continue
		}
		r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
	}
}

// holds reports whether an openat must hang.
func (t *trap) holds(n *notification) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.roots) == 0 {
		return false
	}
	return t.holdsPath(pathOf(n))
}

// holdsPath is holds for a path. The caller holds t.mu.
func (t *trap) holdsPath(path string) bool {
	if !slices.ContainsFunc(t.roots, func(root string) bool {
		return below(path, root) && !slices.ContainsFunc(ofRuntimes, func(own string) bool { return below(path, own) && below(own, root) })
	}) {
		return false
	}
	select {
	case t.held <- path:
	default:
	}
	return true
}

// ofRuntimes are files that language runtimes open in threads of their own. They do not hang:
// the loop that monitors the hardware does not wait for them.
var ofRuntimes = []string{
	"/dev/null", "/dev/urandom", "/dev/random", "/dev/tty", "/dev/shm",
	"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm", "/sys/fs/cgroup",
}

// below reports whether a path is the root or below it.
func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// pathOf returns the path that an openat names; "" if it cannot be read.
func pathOf(n *notification) string {
	page := os.Getpagesize()
	buffer := make([]byte, 0, unix.PathMax)
	for address := uintptr(n.args[1]); len(buffer) < unix.PathMax; { // in parts: the next page may not be mapped
		part := make([]byte, page-int(address%uintptr(page)))
		local := []unix.Iovec{{Base: &part[0]}}
		local[0].SetLen(len(part))
		read, err := unix.ProcessVMReadv(int(n.pid), local, []unix.RemoteIovec{{Base: address, Len: len(part)}}, 0)
		if err != nil || read <= 0 {
			return ""
		}
		text, _, found := bytes.Cut(part[:read], []byte{0})
		buffer, address = append(buffer, text...), address+uintptr(read)
		if found {
			break
		}
	}
	path := string(buffer)
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	link := fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[0])) //nolint:gosec // an int in the kernel
	if int32(n.args[0]) == unix.AT_FDCWD {                         //nolint:gosec // the same
		link = fmt.Sprintf("/proc/%d/cwd", n.pid)
	}
	dir, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	return filepath.Join(dir, path)
}

// close ends the trap. The processes with the filter must have ended.
func (t *trap) close() {
	select {
	case <-t.done:
	case <-time.After(time.Second): // a process outside of the group may still run
	}
	_ = t.file.Close()
}
