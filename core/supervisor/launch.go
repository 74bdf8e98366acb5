package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
)

// launcherPoll is the pause between attempts to reach a launcher.
const launcherPoll = 100 * time.Millisecond

// launcher is the socket of the launcher that starts the program in a container of its own; "" if none does.
func (i *instance) launcher() string { return i.backend.sup.launchers[i.spec.Command] }

// socketDir is where the directories of the backend's sockets are: for one in another container, in the directory
// that both share.
func (i *instance) socketDir() string {
	if socket := i.launcher(); socket != "" {
		return filepath.Dir(socket)
	}
	return i.backend.sup.socketDir
}

// awaitLauncher waits until the launcher answers, at most Timing.Start: its container may start at the same time as
// this one.
func (i *instance) awaitLauncher() error {
	socket := i.launcher()
	if socket == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(i.ctx, i.timing.Start)
	defer cancel()
	err := launcher.Check(socket)
	for err != nil && backoff.Sleep(ctx, launcherPoll) {
		err = launcher.Check(socket)
	}
	switch {
	case err == nil:
		return nil
	case i.ctx.Err() != nil:
		return i.ended()
	}
	return fail(unavailable, "%w", err)
}

// share lets a backend in another container, which may have another user, write to the directory of its socket. Both
// have the group of the directory above.
func (i *instance) share(dir string) error {
	if i.launcher() == "" {
		return nil
	}
	if err := os.Chmod(dir, 0o770|os.ModeSetgid); err != nil {
		return fmt.Errorf("share the directory of the socket with the backend's container: %w", err)
	}
	return nil
}

// launched is a process that the supervisor in the agent's container asked for.
type launched struct {
	*group
	program *plug.Program
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
		program, err := plug.Find(backendDir, name, plug.Pins{})
		if err != nil {
			return nil, fmt.Errorf("in the backend's container: %w", err)
		}
		if err := program.Pin(plug.Pins{Program: box.Checksum, Manifest: box.ManifestChecksum}); err != nil {
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
func (l *launched) Run(stdout, stderr *os.File, begun func(report any)) (unix.WaitStatus, error) {
	l.cmd.Stdout, l.cmd.Stderr = stdout, stderr
	var failure error
	l.run(func(report sandbox.Report, err error) {
		l.program.Close()
		if failure = err; err == nil {
			begun(report)
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
