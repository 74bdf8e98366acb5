package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/text"
)

// maxCompanion bounds the arguments of a companion.
const maxCompanion = 64

// checkCompanion checks the companion that settings ask for: its first argument must be one
// of the backend's needs.
func checkCompanion(args []string, needs inventory.Needs) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) > maxCompanion || slices.ContainsFunc(args, func(arg string) bool { return len(arg) > maxNeed || arg != text.Printable(arg, maxNeed) }) {
		return fmt.Errorf("it asks for a companion whose arguments are more than %d, longer than %d bytes or not printable", maxCompanion, maxNeed)
	}
	if !slices.Contains(needs.Companions, args[0]) {
		return fmt.Errorf("it asks for the companion %q, which is not in its needs", text.Printable(args[0], 64))
	}
	return nil
}

// offerCompanion passes the arguments to keepCompanion.
func (i *instance) offerCompanion(args []string) {
	if len(args) > 0 && (!i.backend.sup.companions || !i.spec.Companions) {
		i.log.Debug("a companion is not started", "companion", args[0], "flag", i.backend.sup.companions, "accepted", i.spec.Companions)
		return
	}
	select {
	case <-i.companions: // they were not received yet
	default:
	}
	i.companions <- args // the slot is free: configure is never called concurrently
}

// keepCompanion starts the companion that the accepted settings ask for, and starts it again
// a pause after it has ended, until the instance ends. It never ends a companion. One that
// finds another one at work exits at once, so that the pause is also how often a companion
// that an earlier agent has started is checked.
func (i *instance) keepCompanion(p *program) {
	var args []string
	var ended <-chan error
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-i.ctx.Done():
			return
		case args = <-i.companions:
		case err := <-ended:
			if err != nil {
				i.log.Warn("the companion failed and is started again", "companion", args[0], "after", i.timing.BackoffLimit, "error", err)
			}
			ended = nil
			pause.Reset(i.timing.BackoffLimit)
			continue
		case <-pause.C:
			if ended != nil {
				continue
			}
		}
		if len(args) > 0 {
			ended = i.startCompanion(p, args)
		}
	}
}

// startCompanion starts the program as a companion, and returns a channel that receives why
// it has ended: nil if with status 0.
func (i *instance) startCompanion(p *program, args []string) <-chan error {
	ended := make(chan error, 1)
	cmd := &exec.Cmd{
		Path: p.path, Args: append([]string{p.name}, args...), Env: Environment(i.spec.Env), Dir: "/", Stderr: os.Stderr,
		// A session of its own, and no signal when this process ends.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if p.file != nil {
		cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{p.file} // see newProcess
	}
	reaper := i.backend.sup.reaper
	// The reaper counts it among the processes that a supervisor waits for, and so does not
	// end it with the orphans of a backend.
	if err := reaper.start(cmd, ""); err != nil {
		ended <- StartError(p.name, err)
		return ended
	}
	i.log.Debug("a companion was started", "companion", args[0], "pid", cmd.Process.Pid)
	go func() {
		err := cmd.Wait()
		reaper.waited(cmd.Process.Pid)
		ended <- err
	}()
	return ended
}
