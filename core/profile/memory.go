package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/wake"
)

// magic is the kind and version of the state file.
const magic = "accelmux-profile/1"

// The pauses between writes that fail.
const minSavePause, maxSavePause = time.Second, time.Minute

// record is the payload of the state file. Fields are only ever added, so that an
// older version can read a newer one's.
type record struct {
	// Node is whose labels these are.
	Node string `json:"node"`
	// Labels are those last seen; nil if none ever were.
	Labels map[string]string `json:"labels"`
	// Cordoned is the Node's annotation of cordoned devices, as it was valid last.
	Cordoned string `json:"cordoned,omitempty"`
	// Profile is the one that was in force last; "" if none was.
	Profile string `json:"profile,omitempty"`
	// Path is the configuration file, Configuration its content when the profile came in
	// force.
	Path          string `json:"path,omitempty"`
	Configuration []byte `json:"configuration,omitempty"`
	// Accepted are the settings that each backend accepted last, by its name.
	Accepted map[string]accepted `json:"accepted,omitempty"`
	// RefusedSince is since when the file is refused; zero if it is not.
	RefusedSince time.Time `json:"refusedSince,omitzero"`
}

// accepted are settings, to the letter, that a program has accepted.
type accepted struct {
	Command  string `json:"command"`
	Settings []byte `json:"settings"`
}

// MemoryOptions are what a Memory needs; all but Disk are required.
type MemoryOptions struct {
	// Path is the state file.
	Path string
	// Node is the name of the agent's own Node, Configuration the path of the configuration
	// file. What was stored for others does not count.
	Node, Configuration string
	// Disk writes the state file; tests make it fail.
	Disk checkpoint.Writer
	Log  *slog.Logger
}

// Memory stores on disk what was in force last: the profile, the configuration file and the
// node's labels. So an agent that is restarted changes nothing on the node while the file is
// invalid or missing, or while the API server is away. Its methods are safe for concurrent use.
type Memory struct {
	opts  MemoryOptions
	dirty chan struct{} // 1 slot

	mu     sync.Mutex
	record record
	// unread is why the file of an earlier run cannot be read; nil if it can.
	unread error
	// problem is why the last write failed; "" after a success.
	problem string
}

// OpenMemory reads what an earlier run stored, or the agent that this one is to replace. It
// changes nothing on disk: the next write replaces a file that cannot be read.
func OpenMemory(opts MemoryOptions) *Memory {
	if absolute, err := filepath.Abs(opts.Configuration); err == nil {
		opts.Configuration = absolute
	}
	m := &Memory{opts: opts, dirty: make(chan struct{}, 1)}
	payload, err := checkpoint.Read(opts.Path, magic)
	if err == nil {
		err = json.Unmarshal(payload, &m.record)
	}
	if err != nil {
		m.record = record{}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.unread = err
		opts.Log.Error("what was in force before cannot be read", "error", err)
	}
	if m.record.Node != opts.Node {
		m.record.Labels, m.record.Cordoned, m.record.Profile = nil, "", ""
	}
	if m.record.Path != opts.Configuration {
		m.record.Configuration, m.record.RefusedSince = nil, time.Time{}
	}
	m.record.Node, m.record.Path = opts.Node, opts.Configuration
	return m
}

// Labels are the node's labels as last seen; nil if none are stored. They must not be
// changed.
func (m *Memory) Labels() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.Labels
}

// Profile is the profile that was in force last; "" if none is stored.
func (m *Memory) Profile() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.Profile
}

// Configuration returns the content of the configuration file that was in force last. The
// error wraps fs.ErrNotExist if none is stored; otherwise it says why it cannot be read.
func (m *Memory) Configuration() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread == nil && m.record.Configuration == nil {
		return nil, fmt.Errorf("no configuration is stored: %w", fs.ErrNotExist)
	}
	return m.record.Configuration, m.unread
}

// setLabels stores the node's labels, which must not change afterwards. It does not wait for
// the disk.
func (m *Memory) setLabels(labels map[string]string) {
	m.set(func(r *record) { r.Labels = labels })
}

// Cordoned is the value of the Node's annotation of cordoned devices that was valid last; "" for none.
func (m *Memory) Cordoned() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.Cordoned
}

func (m *Memory) setCordoned(value string) { m.set(func(r *record) { r.Cordoned = value }) }

// SetInForce stores the profile in force and the content of the configuration file that it is
// from, which must not change afterwards. It does not wait for the disk.
func (m *Memory) SetInForce(profile string, configuration []byte) {
	m.set(func(r *record) { r.Profile, r.Configuration = profile, configuration })
}

// isInForce reports whether a plan is what was in force last, to the letter of its file.
func (m *Memory) isInForce(p *Plan) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unread == nil && m.record.Profile == p.Profile.Name && bytes.Equal(m.record.Configuration, p.source)
}

// accepted returns the settings that a program accepted last as the backend of a name; nil if none are stored.
func (m *Memory) accepted(backend, command string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.record.Accepted[backend]; a.Command == command {
		return a.Settings
	}
	return nil
}

// setAccepted stores what running backends have accepted, unless it is stored, and forgets that of backends that are not in
// names.
func (m *Memory) setAccepted(names map[string]bool, statuses []supervisor.Status) {
	m.mu.Lock()
	all := maps.Clone(m.record.Accepted)
	m.mu.Unlock()
	if all == nil {
		all = map[string]accepted{}
	}
	for _, s := range statuses {
		if s.Accepted != nil {
			all[s.Name] = accepted{s.Command, s.Accepted}
		}
	}
	maps.DeleteFunc(all, func(name string, _ accepted) bool { return !names[name] })
	m.mu.Lock()
	same := maps.EqualFunc(all, m.record.Accepted, func(a, b accepted) bool { return a.Command == b.Command && bytes.Equal(a.Settings, b.Settings) })
	m.mu.Unlock()
	if !same {
		m.set(func(r *record) { r.Accepted = all })
	}
}

// refused stores that the file is refused, or that it is not, and returns since when.
func (m *Memory) refused(is bool) (since time.Time) {
	m.set(func(r *record) {
		if !is {
			r.RefusedSince = time.Time{}
		} else if r.RefusedSince.IsZero() {
			r.RefusedSince = time.Now().UTC()
		}
		since = r.RefusedSince
	})
	return since
}

func (m *Memory) set(change func(*record)) {
	m.mu.Lock()
	change(&m.record)
	m.mu.Unlock()
	wake.Send(m.dirty)
}

// Run writes the state file whenever there is something new to store, until ctx ends. A
// failed write is tried again.
func (m *Memory) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			select {
			case <-m.dirty:
				_ = m.save() // a last try; save logs the error
			default:
			}
			return nil
		case <-m.dirty:
		}
		pauses := backoff.New(minSavePause, maxSavePause)
		for m.save() != nil {
			if !backoff.Sleep(ctx, pauses.Step()) {
				return nil
			}
		}
	}
}

// save writes the state file unless it has the record: another agent may have written it.
func (m *Memory) save() error {
	m.mu.Lock()
	r := m.record
	r.Labels = maps.Clone(r.Labels) // Accepted is replaced as a whole
	m.mu.Unlock()
	payload, err := json.MarshalIndent(r, "", " ")
	if have, readErr := checkpoint.Read(m.opts.Path, magic); err == nil && (readErr != nil || !bytes.Equal(have, payload)) {
		err = m.opts.Disk.Write(m.opts.Path, magic, payload)
	}
	problem := ""
	if err != nil && !errors.Is(err, checkpoint.ErrNotDurable) {
		problem = fmt.Sprintf("profile: what is in force cannot be stored (%v); until it can, a restart needs a valid configuration file, and the API server for the node's labels", err)
		m.opts.Log.Error("store what is in force, trying again", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.problem = problem; err == nil {
		m.unread = nil
	}
	return err
}

// problems returns those with the state file.
func (m *Memory) problems() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	if m.unread != nil {
		all = append(all, fmt.Sprintf("profile: what was in force before cannot be read (%v)", m.unread))
	}
	if m.problem != "" {
		all = append(all, m.problem)
	}
	return all
}
