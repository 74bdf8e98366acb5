package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/cluster"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/selection"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/usage"
)

// Options say where everything is. Directories are created when missing, but for
// BackendDir.
type Options struct {
	// ConfigPath is the node configuration file; it is watched.
	ConfigPath string
	// Profile is the profile to apply; "" for the one that package selection
	// chooses.
	Profile  string
	NodeName string
	// Cluster is the API server: for the node's labels, unless Profile is set, and
	// for Events. Nil: there is none. It stays the caller's.
	Cluster *cluster.Client
	// KubeletDir is kubelet's root: device-plugins, plugins_registry and
	// pod-resources are below it.
	KubeletDir string
	CDIDir     string
	// StateDir holds what must survive a restart, and the admin socket.
	StateDir   string
	BackendDir string
	HostPaths  HostPaths
	// MetricsAddress is where metrics and health are served over TCP, host:port;
	// "" for nowhere.
	MetricsAddress string
	// Log is where the agent logs; nil discards.
	Log *slog.Logger
	// Timing is for tests; the zero value is right for a node.
	Timing Timing
}

// HostPaths are the host's trees as this process sees them. Empty ones are the
// usual places.
type HostPaths struct {
	Sysfs, Devfs, Procfs string
}

// Timing are the agent's own intervals, and those it hands to its parts.
type Timing struct {
	// SwitchLimit is how long a new configuration may wait for its backends
	// before it is applied without those that are late. Default 30s.
	SwitchLimit time.Duration
	// ResetBackoff is the pause after the first reset that did not help; it
	// doubles up to 64 times that. Default 10s.
	ResetBackoff time.Duration
	// ReleaseBackoff is the pause after the first release of a device that failed;
	// it doubles up to 64 times that. Default 1s.
	ReleaseBackoff time.Duration
	// UsagePoll is the interval of the pod-resources poll. Default 10s.
	UsagePoll  time.Duration
	Selection  selection.Timing
	Events     events.Timing
	Usage      usage.Timing
	Supervisor supervisor.Timing
	Plugin     deviceplugin.Timing
}

// Agent is one running agent. Open makes it, Run runs it once.
type Agent struct {
	opts      Options
	log       *slog.Logger
	startedAt time.Time
	// loaded is the newest good configuration, of Open and then of follow, and source
	// the file that it is from.
	loaded *config.NodeConfig
	source []byte
	// file is the configuration file as Open found it, and keeper has what is
	// applied at the next start if the file is no good then.
	file   config.Event
	keeper *config.Keeper
	// selection knows the node's labels; nil if they don't count.
	selection *selection.Watcher
	// unchosen is why no profile can be chosen, for status; nil or "" if one can.
	unchosen atomic.Pointer[string]
	// events writes Events; nil without an API server.
	events *events.Recorder
	// tally counts what is done, for metrics; endpoint serves them, nil if nobody
	// wants them.
	tally    *status.Tally
	endpoint *status.Endpoint

	inventory  *inventory.Store
	health     *health.Judge
	book       *usage.Book
	cdi        *cdi.Store
	supervisor *supervisor.Supervisor
	plugin     *deviceplugin.Plugin
	gate       *gate
	resets     *resets

	// wake asks the reconcile loop for another round; one pending is enough.
	wake chan struct{}
	// plans is what is in force and what is being switched to.
	plans plans
	// switching is held from a step of plans until the supervisor has its specs, so
	// that they get there in order, and no step is decided by the status of
	// backends that have yet to hear of the step before.
	switching    sync.Mutex
	descriptions descriptions
	// view is what the last round made, for status and for kubelet's calls.
	view    atomic.Pointer[view]
	journal journal
	unlock  func() error
	running sync.WaitGroup
}

// Open checks the configuration, takes the state directory and opens what is
// in it. Nothing is started yet. Run must follow: it gives everything back.
func Open(opts Options) (_ *Agent, err error) {
	opts = opts.withDefaults()
	a := &Agent{
		opts:      opts,
		log:       opts.Log,
		startedAt: time.Now(),
		keeper:    config.NewKeeper(filepath.Join(opts.StateDir, "configuration"), opts.ConfigPath, opts.Log),
		inventory: inventory.NewStore(time.Now),
		gate:      newGate(),
		wake:      make(chan struct{}, 1),
		tally:     status.NewTally(),

		descriptions: descriptions{of: map[string]described{}},
	}
	// What is wrong is told at once, before anything is touched.
	refused, err := a.loadFirst()
	if err != nil {
		return nil, err
	}
	if opts.MetricsAddress != "" {
		if a.endpoint, err = status.NewEndpoint(opts.MetricsAddress, a, a.tally, a.log); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	if a.unlock, err = lockStateDir(opts.StateDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.unlock())
		}
	}()
	if err := a.openParts(); err != nil {
		return nil, err
	}
	a.resets = newResets(a)
	a.openCluster()
	a.journal = journal{log: opts.Log, events: a.events}
	first, err := a.firstPlan()
	if err != nil {
		return nil, err
	}
	a.plans.start(first)
	if refused != nil {
		a.refuseFile(refused)
	}
	return a, nil
}

func (o Options) withDefaults() Options {
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&o.HostPaths.Sysfs, "/sys")
	fill(&o.HostPaths.Devfs, "/dev")
	fill(&o.HostPaths.Procfs, "/proc")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Timing.SwitchLimit == 0 {
		o.Timing.SwitchLimit = 30 * time.Second
	}
	if o.Timing.ResetBackoff == 0 {
		o.Timing.ResetBackoff = 10 * time.Second
	}
	if o.Timing.ReleaseBackoff == 0 {
		o.Timing.ReleaseBackoff = time.Second
	}
	return o
}

// openParts opens every part that has something on disk.
func (a *Agent) openParts() error {
	bootID, err := health.BootID(a.opts.HostPaths.Procfs)
	if err != nil {
		return err
	}
	if a.health, err = health.Open(health.Options{
		Path: filepath.Join(a.opts.StateDir, "health"), BootID: bootID, Now: time.Now, Log: a.log,
	}); err != nil {
		return fmt.Errorf("open the health state: %w", err)
	}
	if a.book, err = usage.Open(usage.Options{
		Path: filepath.Join(a.opts.StateDir, "usage"), BootID: bootID,
		Socket:   filepath.Join(a.opts.KubeletDir, "pod-resources", "kubelet.sock"),
		Resolve:  a.resolve,
		Owns:     func(name string) bool { return a.plans.inForce().resource(name) != nil },
		Interval: a.opts.Timing.UsagePoll,
		Timing:   a.opts.Timing.Usage,
		Log:      a.log,
	}); err != nil {
		return fmt.Errorf("open the usage book: %w", err)
	}
	if a.cdi, err = cdi.Open(cdi.Options{Dir: a.opts.CDIDir, Log: a.log}); err != nil {
		return fmt.Errorf("open the CDI directory: %w", err)
	}
	// What an earlier run defined may be in a container that it had no time to
	// note.
	a.book.Suspect(a.cdi.Devices()...)
	if a.supervisor, err = supervisor.New(supervisor.Options{
		BackendDir: a.opts.BackendDir, StateDir: a.opts.StateDir, Paths: a.opts.HostPaths.wire(),
		Sink: sink{a}, Log: a.log, Timing: a.opts.Timing.Supervisor,
	}); err != nil {
		return fmt.Errorf("open the supervisor: %w", err)
	}
	if a.plugin, err = deviceplugin.New(deviceplugin.Options{
		Dir:         filepath.Join(a.opts.KubeletDir, "device-plugins"),
		RegistryDir: filepath.Join(a.opts.KubeletDir, "plugins_registry"),
		Lifecycle:   lifecycle{a}, Answered: a.answered, Log: a.log, Timing: a.opts.Timing.Plugin,
	}); err != nil {
		return fmt.Errorf("open the device plugin: %w", err)
	}
	return nil
}
