package plug

import (
	"errors"
	"fmt"
)

// UnusableError is for a program that cannot be executed here, or whose container is not there.
type UnusableError struct{ err error }

func (e *UnusableError) Error() string { return e.err.Error() }

// Unwrap returns the system's error.
func (e *UnusableError) Unwrap() error { return e.err }

// ViolationError is for a process that broke the contract.
type ViolationError struct{ message string }

func (e *ViolationError) Error() string { return e.message }

func violation(format string, args ...any) error {
	return &ViolationError{fmt.Sprintf(format, args...)}
}

// ErrStarved is for a deadline during which the process waited for a processor.
var ErrStarved = errors.New("the node is too busy")
