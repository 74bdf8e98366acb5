package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Patience bounds every wait.
const Patience = 30 * time.Second

// Section is a part of the table that is measured on its own.
type Section struct {
	// Name is one word, in lower case; with [Figure.What] it names a line for good.
	Name string
	// About describes briefly what is measured, and how.
	About string
	// Measure returns the lines. With an error there are none.
	Measure func(*Setup) ([]Figure, error)
	// Roles are what the program does in processes that [Self] starts. Their names are
	// the program's: begin them with the section's.
	Roles map[string]Role
}

// Role is the main function of a process. It ends with an error, or by SIGTERM.
type Role func(args []string) error

// Setup is what a run of all sections has in common.
type Setup struct {
	// Bin is the directory of the built programs, an absolute path.
	Bin string
	// Quick only checks that everything works: see [Setup.Samples].
	Quick bool
}

// Samples is n, or with Quick the twentieth of it, but two at least.
func (s *Setup) Samples(n int) int {
	if s.Quick {
		return max(n/20, 2)
	}
	return n
}

// roleFlag is the first argument of a process that plays a role.
const roleFlag = "-role"

// Play runs the role that the process was started for, if it was; ok is false if not.
// The main function calls it first.
func Play(sections []Section) (ok bool, err error) {
	if len(os.Args) < 3 || os.Args[1] != roleFlag {
		return false, nil
	}
	name, args := os.Args[2], os.Args[3:]
	for _, s := range sections {
		if role, ok := s.Roles[name]; ok {
			return true, role(args)
		}
	}
	return true, fmt.Errorf("no section has a role %q", name)
}

// Self is this program in another process, which plays a role. The caller starts it, and ends
// it with [End].
func Self(role string, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Command(program, append([]string{roleFlag, role}, args...)...), nil
}

// Command is a process that End ends. If this program dies before, as of a signal to it alone,
// the kernel ends the process: Go keeps its threads, whose death would have the same effect.
func Command(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...) //nolint:noctx // End ends it with a signal
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return c
}

// End sends a process SIGTERM and waits for it. It does nothing to one that was not started,
// or that has ended.
func End(process *exec.Cmd) error {
	if process == nil || process.Process == nil || process.ProcessState != nil {
		return nil
	}
	if err := process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	var exit *exec.ExitError
	if err := process.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// FlagsOnly is an error if the command line of a benchmark has more than flags, such as one
// without its dash: what would run instead takes minutes.
func FlagsOnly(rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected arguments %q: only flags are allowed, see -help", rest)
}

// Machine describes this one and how busy it is: cores, kernel, and the load of the last
// minute, of proc_loadavg(5).
func Machine() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	load, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("%d cores, Linux %s, %s; load %s at the start",
		runtime.NumCPU(), unix.ByteSliceToString(name.Release[:]), runtime.Version(), load), nil
}

// Poll asks at an interval until the answer is yes; it returns false if it was not within the
// limit. An error ends it.
func Poll(limit, every time.Duration, ask func() (bool, error)) (bool, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.After(limit); ; {
		if yes, err := ask(); yes || err != nil {
			return yes, err
		}
		select {
		case <-tick.C:
		case <-end:
			return false, nil
		}
	}
}
