package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Section is a part of the table that is measured on its own.
type Section struct {
	// Name is one word, in lower case; with [Figure.What] it names a line for good.
	Name string
	// About says in a sentence or two what is measured, and how.
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
	// Quick asks for a look whether everything works: see [Setup.Samples].
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

// Self is this program in another process, which plays a role. The caller starts it,
// and ends it with [End].
func Self(role string, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	//nolint:noctx // it is ended by End, with a signal
	command := exec.Command(program, append([]string{roleFlag, role}, args...)...)
	command.Stderr = os.Stderr
	return command, nil
}

// End sends a process SIGTERM and waits for it. One that was not started, or that has
// ended, is nothing to do.
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
