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
	// helperName is a helper's argv[0], by which this program recognizes its task. The
	// further arguments are the mode and the program.
	helperName = "accelmux-start-backend"
	// helperParent has the helper start the program as its child, and print its process ID to
	// descriptor 3. It lives until it is killed, or descriptor 3 is closed.
	helperParent = "parent"
	// helperTrap has the helper set a filter of system calls, send its descriptor over
	// descriptor 3, wait for a byte and become the program.
	helperTrap = "trap"
	// helperSocket is the descriptor.
	helperSocket = 3
)

// A process that launch started as a helper does nothing else. This is in an init function
// so that no program or test that uses the package can omit it.
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

// child finds the program below its parent.
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

// orphan kills the parent alone.
func (s *session) orphan() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// ended reports whether the process ends within a time. It need not be reaped.
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

// end kills the process and what is left of its group. Its number cannot be another's while
// it runs, or is not reaped.
func (c *child) end() {
	if unix.PidfdSendSignal(int(c.file.Fd()), 0, nil, 0) == nil {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	_ = c.file.Close()
}
