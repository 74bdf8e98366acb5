package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/plug"
)

// Errors that callers may decide by.
var (
	// ErrUnknownBackend: no backend of that name is supervised.
	ErrUnknownBackend = errors.New("no such backend")
	// ErrNotRunning: the backend has no running process now; it may have later.
	ErrNotRunning = errors.New("the backend is not running")
	// ErrNotSupported: the backend did not declare the ability.
	ErrNotSupported = errors.New("the backend does not have this ability")
	// ErrRemoved is the reason of Sink.Lost when Apply removed the backend.
	ErrRemoved = errors.New("the backend is no longer configured")
	// ErrClosed: the supervisor was closed.
	ErrClosed = errors.New("the supervisor is closed")
)

// PausedError is why a backend must not run: the node has Label, KEY=VALUE, which its manifest has in pausedWhile.
type PausedError struct{ Label string }

// Error is a message for the operator.
func (e *PausedError) Error() string {
	return fmt.Sprintf("it must not run while the Node has the label %s (pausedWhile of its manifest), and starts when that changes", e.Label)
}

// errReplaced is the reason for the end of a process that was replaced, also while it was
// starting.
var errReplaced = errors.New("replaced by a process of the newer configuration")

// errUnfit is for settings that need a process with other rights.
var errUnfit = errors.New("the settings need a process with other rights")

// cause is the category of a failure; it determines the pause before the next start.
type cause int

const (
	// stopped: the supervisor ended the process; this is no failure.
	stopped cause = iota
	// paused: a node label says that it must not run; this is no failure.
	paused
	// unavailable: the program is missing or unsafe.
	unavailable
	// misconfigured: the settings were refused, or the spec cannot work.
	misconfigured
	// mismatched: the program is not the one that its manifest is for.
	mismatched
	// crashed: the process ended, failed to start, or hung.
	crashed
	// violated: it broke the contract.
	violated
)

// failure is why an instance ended.
type failure struct {
	cause cause
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(c cause, format string, args ...any) *failure {
	return &failure{cause: c, err: fmt.Errorf(format, args...)}
}

// failureOf returns the failure in an error; without one the supervisor ended the process.
func failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{cause: stopped, err: err}
}

// shortagePauses is the pause after a start that failed for a lack of resources, in
// multiples of Timing.Backoff.
const shortagePauses = 5

// maxStarved is how many starts in a row may fail as the process waited for a processor. A process that hangs waits for one,
// too, when its node is busy: the next failures count as those of any process.
const maxStarved = 2

// isShortage reports whether a process could not be started because the node or this
// process lacks files, memory, processes, disk space or time of a processor, or because its container is not
// there. It is not the program's failure.
func isShortage(err error) bool {
	return errors.Is(err, launcher.ErrAway) || errors.Is(err, plug.ErrStarved) || slices.ContainsFunc([]syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.ENOSPC, syscall.EDQUOT,
	}, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}
