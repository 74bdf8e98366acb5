package plug

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/sandbox"
)

// launched is a process that the agent's container asked for.
type launched struct {
	*group
	program *Program
}

// Launched returns the Prepare of a launcher's options. It prepares one program, the file name in backendDir, which
// must be the same as the agent's, with its manifest. The error is for the operator.
func Launched(backendDir, name string, reaper *Reaper) func(launcher.Start) (launcher.Process, error) {
	return func(start launcher.Start) (launcher.Process, error) {
		var box sandbox.Sandbox
		if err := json.Unmarshal(start.Sandbox, &box); err != nil {
			return nil, fmt.Errorf("read the sandbox: %w", err)
		}
		box.Container = true
		if start.Program != name {
			return nil, fmt.Errorf("the backend's container starts %s, not %s", name, start.Program)
		}
		program, err := Find(backendDir, name, Pins{})
		if err != nil {
			return nil, fmt.Errorf("in the backend's container: %w", err)
		}
		if err := program.Pin(Pins{Program: box.Checksum, Manifest: box.ManifestChecksum}); err != nil {
			return nil, fmt.Errorf("the backend's container has another program or manifest than the agent's: %w", err)
		}
		if !box.Pinned {
			program.Close()
			program.File = nil
		}
		group, err := newGroup(program, start.Env, box, reaper)
		if err != nil {
			program.Close()
			return nil, err
		}
		return &launched{group, program}, nil
	}
}

// Run implements [launcher.Process].
func (l *launched) Run(stdout, stderr *os.File, tell func(message any)) (unix.WaitStatus, error) {
	l.cmd.Stdout, l.cmd.Stderr = stdout, stderr
	l.tell = func(m sandbox.Message) { tell(m) }
	var failure error
	l.run(func(report sandbox.Report, err error) {
		l.program.Close()
		if failure = err; err == nil {
			tell(sandbox.Message{Report: &report})
		}
	})
	_ = os.RemoveAll(l.dir) // the agent removes what is left
	if failure != nil {
		return 0, failure
	}
	status, _ := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return unix.WaitStatus(status), nil
}

// Signal implements [launcher.Process].
func (l *launched) Signal(signal unix.Signal) { l.signal(signal) }
