package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// helperName is argv[0] of a helper process: this executable with the arguments mode and
	// program.
	helperName = "accelmux-start-backend"
	// In the mode helperParent, the helper starts the program as its child and writes its
	// process ID to descriptor 3. It runs until it is killed, or the other end of descriptor 3
	// is closed.
	helperParent = "parent"
	// In the mode helperTrap, the helper sets a seccomp filter, sends the filter's descriptor
	// over descriptor 3, waits for a byte and executes the program.
	helperTrap = "trap"
	// helperSocket is descriptor 3.
	helperSocket = 3
)

// In a process that launch started as a helper, init runs the helper and exits, so that every
// program or test with this package can be a helper.
func init() {
	if len(os.Args) != 3 || os.Args[0] != helperName {
		return
	}
	help := helpParent
	if os.Args[1] == helperTrap {
		help = helpTrap
	}
	if err := help(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // the helper's main
	}
	os.Exit(0) //nolint:forbidigo // the helper's main
}

// helpParent starts the program without a parent-death signal.
func helpParent(program string) error {
	unix.CloseOnExec(helperSocket)
	runtime.LockOSThread()
	cmd := &exec.Cmd{
		Path: program, Args: []string{program}, Env: os.Environ(), Dir: "/", Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	socket := os.NewFile(helperSocket, "socket")
	if _, err := fmt.Fprintln(socket, cmd.Process.Pid); err != nil {
		return err
	}
	_, _ = socket.Read(make([]byte, 1)) // returns when the other end is closed
	return nil
}

// child is a program that a helper started.
type child struct {
	pid  int
	file *os.File // a pidfd
}

// child receives the program's process ID from the helper.
func (s *session) child() (*child, error) {
	line, err := bufio.NewReader(s.helper).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("read the process ID: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return nil, fmt.Errorf("read the process ID: %w", err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	return &child{pid, os.NewFile(uintptr(fd), "child")}, nil
}

// orphan kills the helper, but not the program.
func (s *session) orphan() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// ended reports whether the process ends within the limit. It may stay a zombie.
func (c *child) ended(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		left := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.file.Fd()), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// end kills the process and its group. The process ID cannot be reused while the process runs
// or is not reaped.
func (c *child) end() {
	if unix.PidfdSendSignal(int(c.file.Fd()), 0, nil, 0) == nil {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	_ = c.file.Close()
}
