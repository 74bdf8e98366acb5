package fpgadevice

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketEnv says to this program that it is a wrapper, and where the device listens.
const socketEnv = "ACCELMUX_TEST_FPGADEVICE"

// failed is the wrapper's exit status, as that of env(1) and timeout(1).
const failed = 125

// SkipWithoutFilter skips a test where the kernel cannot hand system calls to another
// process: it needs Linux 5.19, and a filter in place that allows seccomp.
func SkipWithoutFilter(tb testing.TB) {
	tb.Helper()
	if err := Filters(); err != nil {
		tb.Skip(err)
	}
}

// Filters says why the kernel cannot hand system calls to another process; nil if it can.
func Filters() error {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("the kernel does not hand system calls to another process: SECCOMP_RET_USER_NOTIF: %w", errno)
	}
	if architectures[runtime.GOARCH] == 0 {
		return fmt.Errorf("no filter of system calls is known for %s", runtime.GOARCH)
	}
	// An invalid program is looked at after the flags, and after the right to set one.
	flags := uintptr(filterFlags)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0); errno != unix.EFAULT && errno != unix.EACCES {
		return fmt.Errorf("the kernel does not hand system calls to another process that cannot be interrupted: seccomp: %w", errno)
	}
	return nil
}

// Wrap has a command that is not started yet, with all that it starts, meet the device:
// it is run by this program, which sets the filter and becomes the command. Its process
// ID and its environment stay what they are.
func (d *Device) Wrap(cmd *exec.Cmd) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if cmd.Err != nil {
		return cmd.Err
	}
	path := cmd.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	cmd.Env = append(cmd.Environ(), socketEnv+"="+d.socket)
	cmd.Path, cmd.Args = self, append([]string{self, path}, cmd.Args...)
	return nil
}

// Program writes a program that is another one, wrapped: for who starts programs by
// their names in a directory, as the agent does. The other's path is absolute.
func (d *Device) Program(path, other string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s %s \"$0\" \"$@\"\n", socketEnv, quoted(d.socket), quoted(self), quoted(other))
	return os.WriteFile(path, []byte(text), 0o755)
}

// quoted is a word of a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// A program with this package is its own wrapper, before its main and its flags.
func init() {
	socket, ok := os.LookupEnv(socketEnv)
	if !ok {
		return
	}
	err := become(socket, os.Args)
	fmt.Fprintf(os.Stderr, "run a command on a test's FPGAs: %v\n", err)
	os.Exit(failed) //nolint:forbidigo // it is the main of a wrapper
}

// become sets the filter and executes the command: the program's path, then its
// arguments from the name on. It returns on errors only.
func become(socket string, args []string) error {
	if len(args) < 3 {
		return errors.New("give a program and its arguments")
	}
	if err := os.Unsetenv(socketEnv); err != nil {
		return err
	}
	runtime.LockOSThread() // the filter is this thread's, which executes the command
	fd, err := filter()
	if err != nil {
		return fmt.Errorf("set the filter: %w", err)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the device has no answer: %w", err)
	}
	return errors.Join(conn.Close(), syscall.Exec(args[1], args[2:], os.Environ()))
}

// filterFlags have the filter listened to, and nothing but the death of the caller end
// the wait for an answer once the device has it: as in the drivers, which do not look
// at signals. Go's runtime sends itself many.
const filterFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// architectures are those of the system calls that the filter knows.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// filter sets this thread's filter, and is the descriptor to listen to it.
func filter() (int, error) {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equals = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		mask   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		// Offsets in struct seccomp_data; the lower half of an argument comes first on
		// these machines.
		number, arch, first, second, third = 0, 4, 16, 24, 32
	)
	program := []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equals, K: architectures[runtime.GOARCH], Jf: 15},
		{Code: load, K: number},
		{Code: equals, K: unix.SYS_IOCTL, Jt: 2},
		{Code: equals, K: unix.SYS_OPENAT, Jt: 5},
		{Code: equals, K: unix.SYS_WRITE, Jt: 7, Jf: 11},
		{Code: load, K: second}, // ioctl: the type of the request
		{Code: mask, K: 0xff00},
		{Code: equals, K: typeDFL << 8, Jt: 7},
		{Code: equals, K: typeOPAE << 8, Jt: 6, Jf: 7},
		{Code: load, K: third}, // openat: for writing only
		{Code: mask, K: unix.O_ACCMODE},
		{Code: equals, K: unix.O_WRONLY, Jt: 3, Jf: 4},
		{Code: load, K: first}, // write: to a file of stores
		{Code: least, K: firstStore, Jf: 2},
		{Code: least, K: firstStore + stores, Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
	}
	set := func() (int, syscall.Errno) {
		p := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, filterFlags, uintptr(unsafe.Pointer(p)))
		return int(fd), errno
	}
	fd, errno := set()
	if errno == unix.EACCES { // without rights, only who cannot gain any
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 0, err
		}
		fd, errno = set()
	}
	if errno != 0 {
		return 0, errno
	}
	return fd, nil
}
