package trap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
)

// socketEnv says to this program that it is a wrapper, and where the trap listens.
const socketEnv = "ACCELMUX_TEST_TRAP"

// failed is the wrapper's exit status, as that of env(1) and timeout(1).
const failed = 125

// maxFilter bounds a filter, in instructions.
const maxFilter = 4096

// Skip skips a test where the kernel cannot hand system calls to another process: it
// needs Linux 5.19, and a filter in place that allows seccomp.
func Skip(tb testing.TB) {
	tb.Helper()
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		host.Lacks(tb, "the kernel does not hand system calls to another process: SECCOMP_RET_USER_NOTIF: %v", errno)
	}
	if architectures[runtime.GOARCH] == 0 {
		host.Lacks(tb, "no filter of system calls is known for %s", runtime.GOARCH)
	}
	// An invalid program is looked at after the flags, and after the right to set one.
	flags := uintptr(filterFlags)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0); errno != unix.EFAULT && errno != unix.EACCES {
		host.Lacks(tb, "the kernel does not hand system calls to another process that cannot be interrupted: seccomp: %v", errno)
	}
}

// Wrap has a command that is not started yet, with all that it starts, under the trap:
// it is run by this program, which sets the filter and becomes the command. Its process
// ID and its environment stay what they are.
func (t *Trap) Wrap(cmd *exec.Cmd) error {
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
	cmd.Env = append(cmd.Environ(), socketEnv+"="+t.socket)
	cmd.Path, cmd.Args = self, append([]string{self, path}, cmd.Args...)
	return nil
}

// A program with this package is its own wrapper, before its main and its flags.
func init() {
	socket, ok := os.LookupEnv(socketEnv)
	if !ok {
		return
	}
	err := become(socket, os.Args)
	fmt.Fprintf(os.Stderr, "run a command under a test's trap: %v\n", err)
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
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	program, err := receive(conn)
	if err != nil {
		return fmt.Errorf("get the filter: %w", err)
	}
	// The filter is this thread's, which executes the command. Until somebody listens it
	// may do nothing that the filter could hand over.
	runtime.LockOSThread()
	fd, err := set(program)
	if err != nil {
		return fmt.Errorf("set the filter: %w", err)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the trap has no answer: %w", err)
	}
	return errors.Join(conn.Close(), syscall.Exec(args[1], args[2:], os.Environ()))
}

func receive(conn io.Reader) ([]unix.SockFilter, error) {
	var size uint32
	if err := binary.Read(conn, binary.NativeEndian, &size); err != nil {
		return nil, err
	}
	program := make([]unix.SockFilter, int(size)/binary.Size(unix.SockFilter{}))
	if len(program) == 0 || len(program) > maxFilter {
		return nil, fmt.Errorf("it has %d instructions", len(program))
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(conn, text); err != nil {
		return nil, err
	}
	return program, binary.Read(bytes.NewReader(text), binary.NativeEndian, program)
}

// filterFlags have the filter listened to, and nothing but the death of the caller end
// the wait for an answer once the trap has it: as in a driver, which does not look at
// signals. Go's runtime sends itself many.
const filterFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// architectures are those of the system calls that filters know.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// calls is a filter that hands over all system calls of these numbers.
func calls(numbers []int) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equals = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		// Offsets in struct seccomp_data.
		number, arch = 0, 4
	)
	program := []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equals, K: architectures[runtime.GOARCH], Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
		{Code: load, K: number},
	}
	for i, n := range numbers {
		program = append(program, unix.SockFilter{Code: equals, K: uint32(n), Jt: uint8(len(numbers) - i)})
	}
	return append(program,
		unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: result, K: unix.SECCOMP_RET_USER_NOTIF})
}

// set sets this thread's filter, and is the descriptor to listen to it.
func set(program []unix.SockFilter) (int, error) {
	try := func() (int, syscall.Errno) {
		p := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, filterFlags, uintptr(unsafe.Pointer(p)))
		return int(fd), errno
	}
	fd, errno := try()
	if errno == unix.EACCES { // without rights, only who cannot gain any
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 0, err
		}
		fd, errno = try()
	}
	if errno != 0 {
		return 0, errno
	}
	return fd, nil
}
