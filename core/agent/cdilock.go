package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/handover"
)

// cdiRetry is how often an agent tries again to take a CDI directory that was made
// again, and that another one has taken.
const cdiRetry = 10 * time.Second

// cdiLock keeps the CDI directory for this agent: two that know nothing of each other
// would remove each other's definitions, also of devices that containers have. What
// cannot be locked is not: an agent must run, whatever the file system. Only notes may be
// called while another method is.
type cdiLock struct {
	dir, stateDir string
	log           *slog.Logger
	lock          *handover.DirLock // nil: not taken
	failed        string            // what was logged last; "" since the directory was taken
	// contested is why another agent has the directory; nil if none has.
	contested atomic.Pointer[string]
}

// take takes the directory. The error is for one that another agent has.
func (c *cdiLock) take() error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		c.log.Debug("create the CDI directory", "error", err) // to open it tells
	}
	lock, err := patiently(c.log, func() (*handover.DirLock, error) { return handover.LockDir(c.dir) })
	return c.took(lock, err)
}

// keep takes the directory again if it was removed and made again, or is missing. It
// returns when to call it again though nothing else is to be done; zero means never. What
// it does not get, it tells.
func (c *cdiLock) keep() time.Time {
	if c.lock != nil && c.lock.Holds() {
		return time.Time{}
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		c.log.Debug("create the CDI directory", "error", err) // to open it tells
	}
	if err := c.took(handover.LockDir(c.dir)); err != nil {
		return time.Now().Add(cdiRetry)
	}
	return time.Time{}
}

// took notes what an attempt led to; its error is for a directory that another agent has.
func (c *cdiLock) took(lock *handover.DirLock, err error) error {
	switch {
	case err == nil:
		if err := c.release(); err != nil {
			c.log.Debug("release a CDI directory that is gone", "error", err)
		}
		c.lock, c.failed = lock, ""
		c.contested.Store(nil)
	case errors.Is(err, handover.ErrHeld):
		err = fmt.Errorf("%w, and with another state directory than %s it keeps its CDI specs there; two would remove each other's: "+
			"remove one of the two (two charts, or a service beside a DaemonSet), or have them take turns with --take-over and one --state-dir",
			err, c.stateDir)
		text := err.Error()
		c.contested.Store(&text)
		c.warn("the CDI directory is not this agent's", err)
		return err
	default:
		c.contested.Store(nil)
		c.warn("the CDI directory is not locked: another agent that uses it would not be noticed", err)
	}
	return nil
}

// warn logs each new failure once.
func (c *cdiLock) warn(message string, err error) {
	if err.Error() != c.failed {
		c.log.Warn(message, "error", err)
	}
	c.failed = err.Error()
}

// notes is what is wrong, for the operator.
func (c *cdiLock) notes() []string {
	if text := c.contested.Load(); text != nil {
		return []string{*text}
	}
	return nil
}

// release gives the directory back, if it was taken.
func (c *cdiLock) release() error {
	if c.lock == nil {
		return nil
	}
	lock := c.lock
	c.lock = nil
	return lock.Release()
}
