package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// Errors that callers may decide by.
var (
	// ErrUnknownBackend: no backend of that name is supervised.
	ErrUnknownBackend = errors.New("no such backend")
	// ErrNotRunning: the backend has no running process now; it may have later.
	ErrNotRunning = errors.New("the backend is not running")
	// ErrNotSupported: the backend did not declare the ability.
	ErrNotSupported = errors.New("the backend does not have this ability")
	// ErrBusy: the call is going on already and cannot go on twice.
	ErrBusy = errors.New("the backend is busy with the same call")
	// ErrRemoved is the reason of Sink.Lost when Apply took the backend away.
	ErrRemoved = errors.New("the backend is no longer configured")
	// ErrClosed: the supervisor was closed.
	ErrClosed = errors.New("the supervisor is closed")
)

// errReplaced ends a process that another one takes over from, and one that a
// newer spec overtook while it was starting.
var errReplaced = errors.New("replaced by a process of the newer configuration")

// kind is what a failure means for the next try.
type kind int

const (
	// stopped: we wanted it so; no failure.
	stopped kind = iota
	// unavailable: there is no program to start, or an unsafe one.
	unavailable
	// misconfigured: the settings were refused, or the spec cannot work.
	misconfigured
	// crashed: the process ended, or did not come up, or hung.
	crashed
	// violated: it broke the contract.
	violated
)

// failure is why an instance ended.
type failure struct {
	kind kind
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(k kind, format string, args ...any) *failure {
	return &failure{kind: k, err: fmt.Errorf(format, args...)}
}

// failureOf finds the failure in an error; any other error means that we wanted
// the end.
func failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{kind: stopped, err: err}
}

// shortagePauses is the pause after a start for which the node lacked something, in
// times Timing.Backoff.
const shortagePauses = 5

// isShortage says that a process could not be started because this node lacks something
// now, or this process may have no more of it. That says nothing about the program and
// is no failure of it, however often it comes.
func isShortage(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.ENOSPC, syscall.EDQUOT,
	}, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}
