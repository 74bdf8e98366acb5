package supervisor

import (
	"fmt"
	"reflect"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// State is where a backend is in its life; the package comment draws it.
type State string

// The states.
const (
	Checking      State = "checking"
	Starting      State = "starting"
	Configuring   State = "configuring"
	Running       State = "running"
	Stopping      State = "stopping"
	Backoff       State = "backoff"
	Quarantined   State = "quarantined"
	Misconfigured State = "misconfigured"
	Unavailable   State = "unavailable"
)

// Status is one backend at one moment.
type Status struct {
	Name    string
	Command string
	State   State
	// Since is when the state began.
	Since time.Time
	// PID is the process's, 0 if there is none.
	PID int
	// Description is what the latest running process said of itself.
	Description inventory.Description
	// Protocol is the version of the contract in use, 0 before the first contact.
	Protocol int
	// Restarts counts the processes after the first one.
	Restarts int
	// LastError is the latest failure as a sentence, also when it is over; "" if
	// there was none.
	LastError   string
	LastErrorAt time.Time
	// Problems are what is wrong now although the backend may run: settings that
	// were refused, a replacement that does not come up, a broken schema, what it does
	// so much of that it is slowed down, a program that was replaced.
	Problems []string
	// RetryAt is when the next process is tried; zero if none is waited for.
	RetryAt time.Time
	// Settled says that the newest spec is in force: its process runs, has
	// accepted the settings and has delivered an inventory that follows from them.
	Settled bool
	// Failed says that the newest spec was tried and is not in force.
	Failed bool
}

// publish makes the state visible, and tells the sink if it is another one.
func (u *unit) publish() {
	s := Status{
		Name: u.name, Command: u.spec.Command, State: u.state(),
		Description: u.description, Protocol: u.protocol, Restarts: max(0, u.starts-1),
		LastError: u.lastError, LastErrorAt: u.lastErrorAt, RetryAt: u.retryAt,
		Settled: u.current != nil && sameSpec(u.current.spec, u.spec) && u.delivered(),
	}
	if s.Settled {
		u.didFail = false
	}
	s.Failed = u.didFail
	switch {
	case u.current != nil:
		s.PID = u.current.pid()
	case u.candidate != nil:
		s.PID = u.candidate.pid()
	}
	if u.refused != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("%s; the earlier settings stay in force", printable(u.refused.Error(), 1024)))
	}
	if u.schema != nil {
		s.Problems = append(s.Problems, printable(u.schema.Error(), 512))
	}
	if u.current != nil && u.didFail && !sameProcess(u.current.spec, u.spec) {
		s.Problems = append(s.Problems, "the process of the newer configuration does not come up, the earlier one goes on: "+u.lastError)
	}
	u.mu.Lock()
	if u.want == nil || !sameSpec(*u.want, u.spec) {
		s.Settled, s.Failed = false, false // of a spec that is no longer the newest
	}
	s.Since = u.public.Since
	if s.State != u.public.State {
		s.Since = time.Now()
	}
	changed := !reflect.DeepEqual(s, u.public)
	u.public = s
	u.mu.Unlock()
	if changed {
		u.sup.sink.Changed(u.name)
	}
}

// delivered reports whether the sink has an inventory that follows from the
// settings in force.
func (u *unit) delivered() bool { return u.current.last.GetSettingsRevision() >= u.revision }

func (u *unit) state() State {
	switch {
	case u.current != nil:
		return Running
	case u.candidate != nil:
		return u.stage
	case u.spec.Heartbeat == 0: // no spec
		return Stopping
	}
	return u.pause
}
