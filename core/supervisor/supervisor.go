package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Spec is a backend as it should run.
type Spec struct {
	// Name is unique among the specs: the backend's identity.
	Name string
	// Command is the program's file name in the backend directory.
	Command string
	// Checksum is what the program's file must have: "sha256:" and 64 hex digits in
	// lower case. "" is any.
	Checksum string
	// Env is added to the small environment that every backend gets.
	Env map[string]string
	// Settings are one JSON object; nothing means {}.
	Settings json.RawMessage
	// Heartbeat is how often the backend must show that its loop turns. Zero means
	// 10s; what is outside 100ms to 1m is taken to the nearer bound.
	Heartbeat time.Duration
}

// Sink takes what backends report. Its methods are called from the backend's own
// goroutine, never concurrently for one backend. They may call Apply and Status,
// but must not wait for the supervisor.
type Sink interface {
	// Started is called before the first Report of a new process: generations
	// start again. If a process replaces a running one, that one's Lost does not
	// come; what it reported stays until the Report that follows at once.
	Started(backend string, description inventory.Description)
	// Described is called after Started when the needs in the description grew.
	Described(backend string, description inventory.Description)
	// Report takes an inventory, which nobody changes afterwards. An error means that it
	// breaks the contract as a whole: the process is ended.
	Report(backend string, wire *backendv1.Inventory) error
	// Lost is called after Started when the backend no longer reports. The reason
	// is ErrRemoved or ErrClosed if it was stopped on purpose.
	Lost(backend string, reason error)
	// Changed is called when the backend's Status is another one.
	Changed(backend string)
}

// Options are what a supervisor needs.
type Options struct {
	// BackendDir holds the programs. It may be missing at first.
	BackendDir string
	// RunDir is where the sockets go, in a directory "backends" of mode 0700 (or
	// below the temporary directory, if RunDir is too deep for sockets). The
	// caller makes sure that it has only one supervisor at a time.
	RunDir string
	// Paths are the host's trees, for the backends; nil means the usual ones.
	Paths *backendv1.HostPaths
	Sink  Sink
	// Reaper reaps processes that backends leave behind; nil if there is none.
	Reaper *Reaper
	// Log gets our records and the backends'; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Supervisor runs backends. Its methods are safe for concurrent use.
type Supervisor struct {
	backendDir string
	socketDir  string
	paths      *backendv1.HostPaths
	sink       Sink
	log        *slog.Logger
	timing     Timing
	reaper     *Reaper

	mu       sync.Mutex
	backends map[string]*backend
	closed   bool
}

// New sweeps what an earlier run left, and starts nothing yet.
func New(o Options) (*Supervisor, error) {
	if o.Sink == nil {
		return nil, errors.New("supervisor: no sink for what backends report")
	}
	backendDir, err := filepath.Abs(o.BackendDir)
	if err != nil {
		return nil, fmt.Errorf("find the backend directory: %w", err)
	}
	runDir, err := filepath.Abs(o.RunDir)
	if err != nil {
		return nil, fmt.Errorf("find the run directory: %w", err)
	}
	socketDir, err := openSocketDir(runDir)
	if err != nil {
		return nil, err
	}
	if o.Paths == nil {
		o.Paths = &backendv1.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: "/proc"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{
		backendDir: backendDir, socketDir: socketDir, paths: o.Paths, sink: o.Sink, log: o.Log,
		timing: o.Timing.withDefaults(), reaper: o.Reaper, backends: map[string]*backend{},
	}, nil
}

// Apply makes these the backends that run; any other is stopped. It returns at
// once, and does nothing if nothing changed. Of two specs with one name the last
// holds.
func (s *Supervisor) Apply(specs []Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	wanted := map[string]*Spec{}
	for _, spec := range specs {
		clean := normalized(spec)
		wanted[spec.Name] = &clean
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

func normalized(spec Spec) Spec {
	if spec.Heartbeat == 0 {
		spec.Heartbeat = backendplugin.DefaultHeartbeat
	}
	spec.Heartbeat = min(max(spec.Heartbeat, 100*time.Millisecond), time.Minute)
	spec.Env = maps.Clone(spec.Env)
	spec.Settings = canonical(spec.Settings)
	return spec
}

// forget removes a unit that is at its end, unless it was asked for again.
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

// Status is that of every backend, sorted by name; a removed one is in it until
// its process is gone.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	backends := slices.Collect(maps.Values(s.backends))
	s.mu.Unlock()
	all := make([]Status, 0, len(backends))
	for _, b := range backends {
		b.mu.Lock()
		public, serving := b.public, b.serving
		if loop := b.crashLoop(time.Now()); loop != "" {
			public.Problems = append(slices.Clip(public.Problems), loop)
		}
		b.mu.Unlock()
		if serving != nil {
			public.Problems = slices.Concat(public.Problems, serving.remarks())
		}
		all = append(all, public)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Close stops every backend, all at the same time, and returns when nothing of
// them is left: after 5.5 s at the latest with the default timing, or half a second after
// the context is done, and 10 s later if no process is left, but a disk that stands still has
// their sockets. The error names the backends whose processes could not be ended, and
// those that had not stopped by then.
func (s *Supervisor) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	backends := slices.Collect(maps.Values(s.backends))
	s.mu.Unlock()
	for _, b := range backends {
		b.demand(nil, true)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timing.closing())
	defer cancel()
	// If it was we who did not run for that long, as on a node that has no processor to
	// spare, the processes have yet to be looked at.
	over := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(2*s.timing.Reap, func() { close(over) }) })()
	cleared := sync.OnceValue(func() <-chan struct{} {
		end := make(chan struct{})
		time.AfterFunc(s.timing.Clear, func() { close(end) })
		return end
	})
	var stuck, late, unclear []string
	for _, b := range backends {
		switch {
		case b.stopped(over):
			if len(b.ending) > 0 {
				stuck = append(stuck, b.name)
			}
		case b.living.Load() > 0:
			late = append(late, b.name)
		case !b.stopped(cleared()):
			unclear = append(unclear, b.name)
		}
	}
	if len(stuck)+len(late)+len(unclear) > 0 {
		return errors.Join(ofBackends("their processes do not die of SIGKILL", stuck),
			ofBackends("they took too long to stop, and their processes may still run", late),
			ofBackends("their processes have ended, but took too long to be cleared away: does the disk of their sockets answer?", unclear))
	}
	if err := os.RemoveAll(s.socketDir); err != nil {
		return fmt.Errorf("remove the backends' sockets: %w", err)
	}
	return nil
}

// ofBackends says what is wrong with the backends of these names; nil if there are none.
func ofBackends(wrong string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("backends %s: %s", strings.Join(names, ", "), wrong)
}
