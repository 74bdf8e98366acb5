package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/sandbox"
)

// launcherPoll is how often a launcher that does not answer is tried.
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
	for {
		err := launcher.Check(socket)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(launcherPoll):
		case <-ctx.Done():
			if i.ctx.Err() != nil {
				return context.Cause(i.ctx)
			}
			return fail(unavailable, "%w", err)
		}
	}
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

// Launched returns what prepares the process of a start that another supervisor asks for: of one program in a
// directory. It must be the one that the other supervisor has, too.
func Launched(backendDir, name string, reaper *Reaper) func(launcher.Start) (launcher.Prepared, error) {
	return func(wanted launcher.Start) (launcher.Prepared, error) {
		var box sandbox.Sandbox
		if err := json.Unmarshal(wanted.Sandbox, &box); err != nil {
			return launcher.Prepared{}, fmt.Errorf("read the sandbox: %w", err)
		}
		if wanted.Program != name {
			return launcher.Prepared{}, fmt.Errorf("the backend's container starts %s, not %s", name, wanted.Program)
		}
		program, err := checkProgram(backendDir, name)
		if err != nil {
			return launcher.Prepared{}, fmt.Errorf("in the backend's container: %w", err)
		}
		if err := program.pinned(box.Checksum); err != nil {
			return launcher.Prepared{}, fmt.Errorf("the backend's container has another program than the agent's: %w", err)
		}
		if !box.Pinned {
			program.close()
			program.file = nil
		}
		cmd, start, err := program.prepare(wanted.Env, box)
		if err != nil {
			program.close()
			return launcher.Prepared{}, err
		}
		return launcher.Prepared{
			Cmd:   cmd,
			Start: func() error { return reaper.start(cmd, box.Dir) },
			Began: func(err error) (json.RawMessage, error) {
				program.close()
				if err != nil {
					start.Close()
					return nil, StartError(program.name, err)
				}
				report, err := start.Wait()
				if err != nil {
					return nil, StartError(program.name, err)
				}
				return json.Marshal(report)
			},
			Ended: func() {
				reaper.endLeft(box.Dir)
				_ = cmd.Wait() // its error is the status
				reaper.waited(cmd.Process.Pid)
				_ = os.RemoveAll(box.Dir) // if it fails, the agent removes it
			},
		}, nil
	}
}
