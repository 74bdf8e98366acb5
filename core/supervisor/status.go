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
	// Applied says that the newest spec is in force: its process runs, has
	// accepted the settings and has delivered an inventory that follows from them.
	Applied bool
	// Failed says that the newest spec was tried and is not in force.
	Failed bool
}

// publish makes the state visible, and tells the sink if it is another one.
func (b *backend) publish() {
	s := Status{
		Name: b.name, Command: b.spec.Command, State: b.state(),
		Description: b.description, Protocol: b.protocol, Restarts: max(0, b.starts-1),
		LastError: b.lastError, LastErrorAt: b.lastErrorAt, RetryAt: b.retryAt,
		Applied: b.current != nil && sameSpec(b.current.spec, b.spec) && b.delivered(),
	}
	if s.Applied {
		b.didFail = false
	}
	s.Failed = b.didFail
	switch {
	case b.current != nil:
		s.PID = b.current.pid()
	case b.candidate != nil:
		s.PID = b.candidate.pid()
	}
	if b.refused != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("%s; the earlier settings stay in force", printable(b.refused.Error(), 1024)))
	}
	if b.schema != nil {
		s.Problems = append(s.Problems, printable(b.schema.Error(), 512))
	}
	if b.current != nil && b.didFail && !sameProcess(b.current.spec, b.spec) {
		s.Problems = append(s.Problems, "the process of the newer configuration does not come up, the earlier one goes on: "+b.lastError)
	}
	b.mu.Lock()
	if b.want == nil || !sameSpec(*b.want, b.spec) {
		s.Applied, s.Failed = false, false // of a spec that is no longer the newest
	}
	s.Since = b.public.Since
	if s.State != b.public.State {
		s.Since = time.Now()
	}
	changed := !reflect.DeepEqual(s, b.public)
	b.public = s
	b.mu.Unlock()
	if changed {
		b.sup.sink.Changed(b.name)
	}
}

// delivered reports whether the sink has an inventory that follows from the
// settings in force.
func (b *backend) delivered() bool { return b.current.last.GetSettingsRevision() >= b.revision }

func (b *backend) state() State {
	switch {
	case b.current != nil:
		return Running
	case b.candidate != nil:
		return b.stage
	case b.spec.Heartbeat == 0: // no spec
		return Stopping
	}
	return b.pause
}
