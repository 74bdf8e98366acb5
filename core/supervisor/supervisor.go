package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/wake"
)

// Spec is the desired state of a backend.
type Spec struct {
	// Name is unique among the specs: the backend's identity.
	Name string
	// Command is the program's file name in the backend directory.
	Command string
	// Checksum of the program's file: "sha256:" and 64 hex digits in lower case. "" accepts
	// any file.
	Checksum string
	// ManifestChecksum is that of the manifest and the files that belong to it, in the same form.
	ManifestChecksum string
	// Env is added to the small environment that every backend gets. It must not change
	// afterwards.
	Env map[string]string
	// Sandbox is what the process may do.
	Sandbox sandbox.Policy
	// Settings are one JSON object. Equal settings are equal bytes, as package config writes
	// them.
	Settings json.RawMessage
	// Fallback are the settings that this program accepted last, in an earlier run perhaps; nil if there are none. They are in
	// force while Settings are refused. That it accepted them counts for more than what another manifest says of them.
	Fallback json.RawMessage
	// Heartbeat is the interval at which the loop that watches the hardware must show that
	// it runs, 100ms to 1m.
	Heartbeat time.Duration
}

// Sink receives what backends report. Its methods are called from the backend's own
// goroutine, never concurrently for one backend. They may call Apply and Status,
// but must not wait for the supervisor.
type Sink interface {
	// Started is called before the first Report of a new process, whose generations begin
	// again. If the process replaces a running one, Lost is not called for the old process;
	// its inventory stays until the Report that follows immediately.
	Started(backend string, description inventory.Description)
	// Described is called after Started when accepted settings have other attributes.
	Described(backend string, description inventory.Description)
	// Report receives an inventory, which is not changed afterwards. An error means that it
	// breaks the contract as a whole: the process is ended. For a backend that a node label pauses, Started and Report are
	// called with an inventory of the supervisor's, in which nothing could be looked at.
	Report(backend string, wire *inventory.Report) error
	// Lost is called when the backend no longer reports: after Started, when its process has ended, and each time that one
	// cannot be started and the next is not tried soon. The reason is ErrRemoved or ErrClosed if it was stopped on purpose.
	Lost(backend string, reason error)
	// Changed is called when the backend's Status has changed.
	Changed(backend string)
}

// Options are what a supervisor needs.
type Options struct {
	// BackendDir holds the programs. It may be missing at first.
	BackendDir string
	// Plug is where processes are started; Timing has its Timing.
	Plug plug.Options
	Sink Sink
	// Log receives the supervisor's and the backends' records; nil discards them.
	Log    *slog.Logger
	Timing Timing
}

// Supervisor runs backends. Its methods are safe for concurrent use.
type Supervisor struct {
	backendDir string
	room       *plug.Room
	sink       Sink
	log        *slog.Logger
	timing     Timing
	// labels are the node's; nil if they are not known.
	labels atomic.Pointer[map[string]string]

	mu       sync.Mutex
	backends map[string]*backend
	closed   bool
}

// New removes what an earlier run left in the run directory. It starts no backend.
func New(o Options) (*Supervisor, error) {
	if o.Sink == nil {
		return nil, errors.New("supervisor: no sink for what backends report")
	}
	backendDir, err := filepath.Abs(o.BackendDir)
	if err != nil {
		return nil, fmt.Errorf("find the backend directory: %w", err)
	}
	o.Timing = o.Timing.withDefaults()
	o.Plug.Timing = o.Timing.Timing
	room, err := plug.Open(o.Plug)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{
		backendDir: backendDir, room: room, sink: o.Sink, log: o.Log, timing: o.Timing, backends: map[string]*backend{},
	}, nil
}

// Apply sets the backends that run; all others are stopped. It does not block, and does
// nothing if nothing changed. Of two specs with the same name the last one counts.
func (s *Supervisor) Apply(specs []Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	wanted := map[string]*Spec{}
	for _, spec := range specs {
		wanted[spec.Name] = &spec
	}
	for name, spec := range wanted {
		b := s.backends[name]
		if b == nil {
			b = newBackend(s, name)
			s.backends[name] = b
			b.want = spec
			go b.run()
			continue
		}
		b.demand(spec, false)
	}
	for name, b := range s.backends {
		if wanted[name] == nil {
			b.demand(nil, false)
		}
	}
}

// SetLabels sets the node's labels, which must not change afterwards: a backend does not run while its manifest has one of
// them in pausedWhile. It does not block.
func (s *Supervisor) SetLabels(labels map[string]string) {
	s.labels.Store(&labels)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.backends {
		wake.Send(b.wake)
	}
}

// pausedBy returns why a backend must not run now, by the pauses of its manifest; nil if it may.
func (s *Supervisor) pausedBy(pauses []manifest.Pause) *PausedError {
	labels := s.labels.Load()
	if labels == nil {
		return nil
	}
	if label := manifest.Paused(pauses, *labels); label != "" {
		return &PausedError{label}
	}
	return nil
}

// forget removes a backend whose processes are gone, unless Apply has added it again.
func (s *Supervisor) forget(b *backend) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.want != nil {
		return false
	}
	delete(s.backends, b.name)
	return true
}

// Status returns the status of every backend, sorted by name; a removed one is included
// until its process is gone.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	backends := slices.Collect(maps.Values(s.backends))
	s.mu.Unlock()
	all := make([]Status, 0, len(backends))
	for _, b := range backends {
		b.mu.Lock()
		public, serving := b.public, b.serving
		b.mu.Unlock()
		public.Problems = slices.Clone(public.Problems)
		if n := b.breaker.recent(time.Now()); n >= minCrashes {
			public.Problems = append(public.Problems, fmt.Sprintf("it failed %d times within %s; the latest failure: %s",
				n, s.timing.Window, public.LastError))
		}
		if serving != nil {
			public.Problems = append(public.Problems, serving.problems()...)
		}
		all = append(all, public)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Close stops all backends at the same time and returns when their processes have ended, or
// ctx ends. It takes 4.5 s with the default timing if a process does not end at all. The error
// names the backends whose processes may still exist.
func (s *Supervisor) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	backends := slices.Collect(maps.Values(s.backends))
	s.mu.Unlock()
	for _, b := range backends {
		b.demand(nil, true)
	}
	var stuck, late []string
	for _, b := range backends {
		switch {
		case !b.stopped(ctx):
			late = append(late, b.name)
		case len(b.ending) > 0:
			stuck = append(stuck, b.name)
		}
	}
	if len(stuck)+len(late) > 0 {
		return errors.Join(ofBackends("their processes did not end after SIGKILL", stuck),
			ofBackends("they took too long to stop, and their processes may still run", late))
	}
	return s.room.Close()
}

// ofBackends returns an error that names the backends; nil if there are none.
func ofBackends(wrong string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("backends %s: %s", strings.Join(names, ", "), wrong)
}
