//go:build !linux || !amd64

package clock

import (
	"errors"
	"fmt"
	"time"
)

// Clock is the wall clock of one process.
type Clock struct{}

// Of is not supported here.
func Of(int) (*Clock, error) {
	return nil, fmt.Errorf("how a process's clock is stepped is known only for Linux on x86-64: %w", errors.ErrUnsupported)
}

// Step is never called: there is no Clock here.
func (*Clock) Step(time.Duration) error { return errors.ErrUnsupported }
