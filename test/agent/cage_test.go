package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// cageEnv makes the test's program a cage; its value is one.
	cageEnv = "ACCELMUX_TEST_CAGE"

	// What the cage has for an intruder to find.
	cageToken    = "/run/secrets/kubernetes.io/serviceaccount/token"
	cageManager  = "/run/systemd/private"
	cageLog      = "/run/systemd/journal/dev-log"
	cageBus      = "/run/dbus/system_bus_socket"
	cageAbstract = "accelmux-test-shim"
	cageAddress  = "192.0.2.1" // of TEST-NET-1 (RFC 5737)
	cageMetrics  = "127.0.0.1:9400"
	cageSegment  = 0 // the first of an IPC namespace
)

var cageRuntime = []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/docker.sock"}

// cage is where an agent runs as in a container or a service: with its own mount, network, UTS and IPC
// namespace, so that an intruder can change those of the test only, and with fewer rights.
type cage struct {
	Command []string
	// PIDs: it has a PID namespace, too, and the agent is process 1 there.
	PIDs bool
	// Drop is a set of capabilities that it has not, by their numbers.
	Drop []uintptr
	// NoNewPrivs is as in prctl(2).
	NoNewPrivs bool
	// Cgroup is one to be in, a directory; "" for that of the test.
	Cgroup string
	// NoLandlock makes the kernel seem to be one without Landlock.
	NoLandlock bool
}

// allCapabilities are the numbers of all, CAP_SETPCAP last: the others cannot be dropped without it.
func allCapabilities() (all []uintptr) {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if c != unix.CAP_SETPCAP {
			all = append(all, c)
		}
	}
	return append(all, unix.CAP_SETPCAP)
}

// caged changes a command so that it runs in the cage.
func (c cage) caged(command *exec.Cmd) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.Command = append([]string{command.Path}, command.Args[1:]...)
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	command.Path, command.Args = self, []string{self}
	command.Env = append(os.Environ(), cageEnv+"="+string(text))
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	if c.PIDs {
		command.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID
	}
	return nil
}

// playCage is the main function of a cage; it returns only if it fails.
func playCage(text string) int {
	runtime.LockOSThread() // what follows is a thread's
	var c cage
	err := json.Unmarshal([]byte(text), &c)
	for _, step := range []func() error{c.cgroup, c.mounts, c.network, c.sockets, c.rights} {
		if err == nil {
			err = step()
		}
	}
	if err == nil {
		env := slices.DeleteFunc(os.Environ(), func(v string) bool { return len(v) > len(cageEnv) && v[:len(cageEnv)] == cageEnv })
		err = syscall.Exec(c.Command[0], c.Command, env)
	}
	fmt.Fprintln(os.Stderr, "the cage:", err)
	return 1
}

func (c cage) cgroup() error {
	if c.Cgroup == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(c.Cgroup, "cgroup.procs"), []byte("0"), 0)
}

// mounts puts a /run of its own with a token in place, and a /proc of its PID namespace.
func (c cage) mounts() error {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil && c.PIDs {
		err = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	if err == nil {
		err = unix.Mount("run", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m")
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(cageToken), 0o755)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(cageToken, []byte("a token"), 0o600)
}

// network brings up the loopback interface, with an address that seems to be another machine's.
func (cage) network() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(cageAddress + "/32")
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(lo, address))
}

// sockets opens those of others, and a shared memory segment. The agent inherits them, which keeps
// them open.
func (cage) sockets() error {
	for _, path := range append([]string{cageManager, cageBus, cageLog, "\x00" + cageAbstract}, cageRuntime...) {
		if path[0] == '/' {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		kind := unix.SOCK_STREAM
		if path == cageLog {
			kind = unix.SOCK_DGRAM
		}
		fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
		}
		if err == nil && kind == unix.SOCK_STREAM {
			err = unix.Listen(fd, 100)
		}
		if err != nil {
			return fmt.Errorf("listen on %q: %w", path, err)
		}
	}
	if err := errors.Join(os.Chmod(cageBus, 0o666), os.Chmod(cageLog, 0o666)); err != nil {
		return err
	}
	if id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600); err != nil || id != cageSegment {
		return fmt.Errorf("the first segment of shared memory has the ID %d: %w", id, err)
	}
	return nil
}

// rights drops what an agent in the cage does not have. execve(2) gives root the capabilities of the
// bounding set.
func (c cage) rights() error {
	if c.NoLandlock {
		if err := hideLandlock(); err != nil {
			return err
		}
	}
	for _, capability := range c.Drop {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if c.NoNewPrivs {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return nil
}

// hideLandlock lets landlock_create_ruleset fail as in a kernel without it.
func hideLandlock() error {
	const load, equals, result = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{
		{Code: load, K: 0}, // nr, in struct seccomp_data: it is the same number on all machines
		{Code: equals, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
		{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(filter))); errno != 0 {
		return errno
	}
	return nil
}
