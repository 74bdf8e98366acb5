package supervisor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
)

// State is the state of a backend; the package comment has the diagram.
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
	Paused        State = "paused"
)

// Status is one backend at one moment.
type Status struct {
	Name    string
	Command string
	State   State
	// Since is when the state began.
	Since time.Time
	// PID is the process ID, 0 if there is no process.
	PID int
	// Description is that of the latest running process.
	Description inventory.Description
	// Protocol is the version of the contract in use, 0 before the first connection.
	Protocol int
	// Sandbox is what is in force of the sandbox of the running process.
	Sandbox sandbox.Report
	// Given is what that process gets beyond its own files, and Missing what its manifest lists beyond that.
	Given, Missing sandbox.Needs
	// Restarts counts the processes that were started after a failure of the process before.
	Restarts int
	// LastError is the latest failure, also after the backend has recovered; "" if there
	// was none.
	LastError   string
	LastErrorAt time.Time
	// Paused is why it must not run now; "" if it may.
	Paused string
	// Problems that the backend has now, although it may run: refused settings, a
	// replacement that fails to start, too many messages or log lines, a
	// replaced program.
	Problems []string
	// RetryAt is when the next process is started; zero if no start is planned.
	RetryAt time.Time
	// Applied: the newest spec is in force. Its process runs, has accepted the settings and
	// has delivered an inventory that follows from them.
	Applied bool
	// Failed: the newest spec was tried and is not in force.
	Failed bool
	// Accepted are the settings that the running process has accepted; nil if none runs. They are Command's.
	Accepted json.RawMessage
}

// publish updates the status, and notifies the sink if it has changed.
func (b *backend) publish() {
	s := Status{
		Name: b.name, Command: b.spec.Command, State: b.state(),
		Description: b.description, Protocol: b.protocol, Restarts: b.restarts,
		LastError: b.lastError, LastErrorAt: b.lastErrorAt, RetryAt: b.retryAt,
		Applied: b.current != nil && b.current.spec.Equal(b.spec) && !b.current.outdated && b.delivered(),
	}
	if s.Applied {
		b.didFail = false
	}
	if s.Failed = b.didFail; b.paused != nil {
		s.Failed, s.Paused = true, b.paused.Error()
		s.Problems = append(s.Problems, "paused: "+s.Paused)
	}
	switch {
	case b.current != nil:
		s.PID, s.Command, s.Accepted = b.current.pid(), b.current.spec.Command, b.current.spec.Settings
		s.Sandbox, s.Given, s.Missing = b.current.process.Report(), b.current.rights.given, b.current.rights.missing
	case b.candidate != nil:
		s.PID = b.candidate.pid()
	}
	if b.refused != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("%s; the earlier settings stay in force", text.Shorten(b.refused.Error(), maxMessage)))
	}
	if i := b.current; i != nil && i.rights.refused != nil && bytes.Equal(i.spec.Settings, i.accepted) {
		s.Problems = append(s.Problems, "by its manifest "+i.rights.refused.Error()+"; they stay in force, as its program accepts them: correct them before its next upgrade")
	}
	if b.current != nil && b.didFail && !b.serves(b.spec) {
		s.Problems = append(s.Problems, "the process of the new configuration failed to start, the previous process keeps running: "+b.lastError)
	}
	b.mu.Lock()
	if b.want == nil || !b.want.Equal(b.spec) {
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
	case b.paused != nil && len(b.ending) > 0:
		return Stopping
	case b.paused != nil:
		return Paused
	}
	return b.pause
}
