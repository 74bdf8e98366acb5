// Package takeover lets a newer agent of a node replace an older one without a gap, as in
// the rollout of a DaemonSet with maxSurge.
//
// Two files in the state directory are locked (flock(2)): "lock" by the agent that serves
// the node, which also writes into it whether kubelet is connected to that agent, and
// "standby.lock" by the agent that follows it:
//
//	                                          lock              standby.lock
//	older serves                              older, connected  -
//	newer starts its backends and waits       older, connected  newer
//	older gets SIGTERM: it finishes what
//	  it does to devices, stores its state,
//	  and from now on only answers kubelet    -                 newer
//	the newer loads the state and registers   newer             -
//	kubelet is connected to the newer         newer, connected  -
//	older ends                                newer, connected  -
//
// The kernel releases the locks of a process that ends in whatever way. If the older agent is
// killed, the newer one serves at once. If the newer one is killed, the older one answers
// kubelet until another agent is connected, or until the limit that its caller sets. It does
// not lock the directory again. A third agent waits for standby.lock.
//
// The files have mode 0600 in a directory of root. A process of root, such as a backend,
// could lock them and so keep agents from starting: the log and `accelmux status` then show
// what the file says of its owner.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

const (
	lockName    = "lock"
	standbyName = "standby.lock"
	// poll is the interval of attempts to lock a file, and of checks of another agent's locks.
	poll = 50 * time.Millisecond
)

// Claim is the claim of one agent to a state directory. Its methods are safe for concurrent
// use.
type Claim struct {
	dir string

	mu            sync.Mutex
	lock, standby *FileLock // nil if this agent does not have it
}

// New returns a claim to a state directory. It locks nothing yet.
func New(dir string) *Claim { return &Claim{dir: dir} }

// Lock locks the directory for this agent, unless it is locked by this agent already. The
// error is an [ErrHeld] that names the other agent if there is one. This agent may have locked
// standby.lock then: it follows the other one until Close.
func (c *Claim) Lock() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		return nil
	}
	if c.standby == nil {
		if c.standby, err = LockFile(c.path(standbyName)); err != nil {
			return err
		}
	}
	if c.lock, err = LockFile(c.path(lockName)); err != nil {
		return err
	}
	return release(&c.standby)
}

// Wait locks the directory as soon as no other agent has it, or returns the error of ctx.
func (c *Claim) Wait(ctx context.Context) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if err := c.Lock(); !errors.Is(err, ErrHeld) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Next reports whether this agent has locked standby.lock: it is the one that follows.
func (c *Claim) Next() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standby != nil
}

// Connected records that kubelet is connected to this agent, so that the one before it ends.
func (c *Claim) Connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		c.lock.describe(true)
	}
}

// Active returns the other agent that has the directory; nil if there is none.
func (c *Claim) Active() *LockOwner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		return nil
	}
	return OwnerOf(c.path(lockName))
}

// Standby returns the other agent that follows this one; nil if there is none.
func (c *Claim) Standby() *LockOwner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standby != nil {
		return nil
	}
	return OwnerOf(c.path(standbyName))
}

// Release releases the directory, and returns the agent that has locked it when kubelet is connected to that one. The
// error is that of ctx if it ends first; then there is no agent.
func (c *Claim) Release(ctx context.Context) (*LockOwner, error) {
	c.mu.Lock()
	err := release(&c.lock)
	c.mu.Unlock()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if active := c.Active(); active != nil && active.Connected {
			return active, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, fmt.Errorf("no other agent is connected to kubelet yet: %w", ctx.Err()))
		case <-ticker.C:
		}
	}
}

// Close releases what this agent has locked.
func (c *Claim) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(release(&c.lock), release(&c.standby))
}

func (c *Claim) path(name string) string { return filepath.Join(c.dir, name) }

// release releases a lock, if there is one.
func release(lock **FileLock) error {
	if *lock == nil {
		return nil
	}
	err := (*lock).Release()
	*lock = nil
	return err
}
