package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/takeover"
	"github.com/accelmux/accelmux/core/telemetry"
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
	Cluster *kubeapi.Client
	// Pods reads a Pod, for the parameters that its containers give. Default: from Cluster,
	// if there is one.
	Pods func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// KubeletDir is kubelet's root: device-plugins, plugins_registry and
	// pod-resources are below it.
	KubeletDir string
	CDIDir     string
	// StateDir holds what must survive a restart. It has one active agent.
	StateDir string
	// RunDir is this process's own: the admin socket and the backends' sockets.
	RunDir     string
	BackendDir string
	HostPaths  HostPaths
	// MetricsAddress is where metrics and health are served over TCP, host:port;
	// "" for nowhere.
	MetricsAddress string
	// TakeOver has [Run] wait for another agent that has StateDir to end, instead of failing.
	TakeOver bool
	// FeaturesDir is where a feature file for Node Feature Discovery is kept; ""
	// for none.
	FeaturesDir string
	// Settled is called after each round that kubelet was told the outcome of, and must
	// return at once; nil for nobody.
	Settled func()
	// Released is called after each attempt to release a device of a holder that is gone,
	// with nil or why it failed: then it is tried again. It must return at once; nil for
	// nobody.
	Released func(backend, device string, err error)
	// Reaper reaps processes that backends leave behind; nil if there is none.
	Reaper *supervisor.Reaper
	// Log is where the agent logs; nil discards.
	Log *slog.Logger
	// Timing is for tests; the zero value is right for a node.
	Timing Timing
}

// Timing are the agent's own intervals, and those it hands to its parts.
type Timing struct {
	// SwitchLimit is how long a new configuration may wait for its backends
	// before it is applied without those that are late. Default 30s.
	SwitchLimit time.Duration
	// Stop is how long the backends may take to end with the agent: SIGTERM must leave
	// nothing behind within 5 s. Default 3s.
	Stop time.Duration
	// ResetBackoff is the pause after the first reset that did not help; it
	// doubles up to 64 times that. Default 10s.
	ResetBackoff time.Duration
	// ReleaseBackoff is the pause after the first release of a device that failed;
	// it doubles up to 64 times that. Default 1s.
	ReleaseBackoff time.Duration
	// UsagePoll is the interval of the pod-resources poll. Default 10s.
	UsagePoll  time.Duration
	CDI        cdi.Timing
	Selection  profile.Timing
	Events     events.Timing
	Features   features.Timing
	Usage      holders.Timing
	Supervisor supervisor.Timing
	Telemetry  telemetry.Timing
	Plugin     deviceplugin.Timing
	Conflict   conflict.Timing
}

// runLockName is the file in the run directory that its process holds.
const runLockName = "run.lock"

// Agent is one running agent. Open makes it, Run runs it once.
type Agent struct {
	// Source is what the agent shows.
	status.Source
	opts      Options
	log       *slog.Logger
	startedAt time.Time
	// file is the configuration file as Open found it.
	file config.Event
	// keeper stores the configuration in force for the next start.
	keeper *config.Keeper
	// selection knows the node's labels; nil if they don't count.
	selection *profile.Watcher
	// events writes Events; nil without an API server.
	events *events.Recorder
	// tally counts what is done, for metrics; endpoint serves them, nil if nobody
	// wants them.
	tally    *status.Tally
	endpoint *status.Endpoint
	// files announces changes of files; nil where the kernel cannot.
	files *filewatch.Watcher
	// features publishes what the node has; nil for nowhere.
	features *features.Publisher
	// telemetry has what the backends measure, while somebody asks for it.
	telemetry *telemetry.Telemetry

	inventory  *inventory.Store
	health     *health.Judge
	book       *holders.Book
	cdi        *cdi.Store
	supervisor *supervisor.Supervisor
	lifecycle  *lifecycle.Lifecycle
	plugin     *deviceplugin.Plugin
	// conflicts finds conflicting device plugins; nil until this is the active agent.
	conflicts *conflict.Detector

	// wake asks the reconcile loop for another round; one pending is enough.
	wake chan struct{}
	// plans has the plan in force, and switches to another.
	plans *profile.Switch
	// view is what the last round made, for status and for kubelet's calls.
	view    atomic.Pointer[round.Round]
	journal *events.Journal
	// nodes has the device nodes that are missing.
	nodes round.Nodes

	// claim is that of this agent to the state directory. active is set while what is in
	// the directory is open, ending when another agent takes over.
	claim          *takeover.Claim
	active, ending atomic.Bool
	runLock        *takeover.FileLock
	// onDuty are the goroutines that only the active agent has, serving those that go on
	// until kubelet is connected to the agent that takes over.
	onDuty, serving sync.WaitGroup
}

// Open checks the configuration, locks the state directory and opens what is in it; with
// Options.TakeOver, if no other agent has it. Nothing is started yet. Run must follow: it
// gives everything back.
func Open(opts Options) (*Agent, error) { return open(opts, takeover.New(opts.StateDir)) }

// open is Open with a claim of the caller's, which open closes if it fails.
func open(opts Options, claim *takeover.Claim) (_ *Agent, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, claim.Close())
		}
	}()
	opts = opts.withDefaults()
	if err := opts.HostPaths.check(); err != nil {
		return nil, err
	}
	a := newAgent(opts)
	a.claim = claim
	a.Source = status.NewSource(a.facts, a.alive)
	// A configuration that cannot be used is reported before anything is touched.
	loaded, err := profile.Load(opts.ConfigPath, opts.Profile, opts.byLabels(), a.keeper)
	if err != nil {
		return nil, err
	}
	a.file = loaded.File
	a.telemetry = telemetry.New(telemetry.Options{
		Sample: a.sample, Owners: a.owners, Reserved: status.Named(telemetry.Prefix), Log: a.log, Timing: opts.Timing.Telemetry,
	})
	if opts.MetricsAddress != "" {
		if a.endpoint, err = status.NewEndpoint(opts.MetricsAddress, a.Source, a.tally, a.log, a.telemetry); err != nil {
			return nil, err
		}
	}
	switch err := errors.Join(os.MkdirAll(opts.StateDir, 0o700), os.MkdirAll(opts.RunDir, 0o700)); {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("make the agent's directories: %w: run it as root, or name others with --state-dir and --run-dir", err)
	case err != nil:
		return nil, fmt.Errorf("make the agent's directories: %w", err)
	}
	locked, err := a.claimState()
	if err != nil {
		return nil, err
	}
	if a.runLock, err = patiently(a.log, func() (*takeover.FileLock, error) {
		return takeover.LockFile(filepath.Join(opts.RunDir, runLockName))
	}); err != nil {
		return nil, fmt.Errorf("%w: give this one its own with --run-dir", err)
	}
	a.files = filewatch.New(opts.Log)
	defer func() {
		if err != nil {
			a.events.Close()
			err = errors.Join(err, a.files.Close(), a.runLock.Release())
		}
	}()
	if err := a.openParts(); err != nil {
		return nil, err
	}
	a.openCluster()
	if opts.FeaturesDir != "" {
		a.features = features.New(features.Options{Dir: opts.FeaturesDir, Log: a.log, Timing: opts.Timing.Features})
	}
	a.journal = events.NewJournal(opts.Log, a.events)
	if err := a.openSwitch(loaded); err != nil {
		return nil, err
	}
	if locked {
		err = a.openState()
	}
	return a, err
}

func newAgent(opts Options) *Agent {
	return &Agent{
		opts:      opts,
		log:       opts.Log,
		startedAt: time.Now(),
		keeper:    config.NewKeeper(filepath.Join(opts.StateDir, "configuration"), opts.ConfigPath, opts.Log),
		inventory: inventory.NewStore(time.Now),
		wake:      make(chan struct{}, 1),
		tally:     status.NewTally(),
		nodes:     round.Nodes{Host: opts.HostPaths.nodes()},
	}
}

// lockPatience is how long a lock may outlive the agent that had it: a backend that
// it was just starting when it was killed has its files open until it runs its own
// program.
const lockPatience = time.Second

// patiently tries to lock something, again and again for lockPatience if somebody has
// it, and says so.
func patiently[T any](log *slog.Logger, try func() (T, error)) (T, error) {
	limit := time.Now().Add(lockPatience)
	tick := time.NewTicker(lockPatience / 50)
	defer tick.Stop()
	for first := true; ; first = false {
		got, err := try()
		if !errors.Is(err, takeover.ErrHeld) || time.Now().After(limit) {
			return got, err
		}
		if first {
			log.Info("waiting for another agent to end", "held", err, "limit", lockPatience)
		}
		<-tick.C
	}
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
	if o.Settled == nil {
		o.Settled = func() {}
	}
	if o.Released == nil {
		o.Released = func(string, string, error) {}
	}
	if o.Pods == nil && o.Cluster != nil {
		o.Pods = o.Cluster.GetPod
	}
	if o.Timing.SwitchLimit == 0 {
		o.Timing.SwitchLimit = 30 * time.Second
	}
	if o.Timing.Stop == 0 {
		o.Timing.Stop = 3 * time.Second
	}
	return o
}

// openParts makes the parts that have nothing in the state directory.
func (a *Agent) openParts() (err error) {
	if a.supervisor, err = supervisor.New(supervisor.Options{
		BackendDir: a.opts.BackendDir, RunDir: a.opts.RunDir, Paths: a.opts.HostPaths.wire(),
		Sink: sink{a}, Reaper: a.opts.Reaper, Log: a.log, Timing: a.opts.Timing.Supervisor,
	}); err != nil {
		return fmt.Errorf("open the supervisor: %w", err)
	}
	return nil
}

// openState opens what only the active agent may touch: the parts that write to
// the state directory and to the CDI directory.
func (a *Agent) openState() error {
	bootID, err := health.BootID(a.opts.HostPaths.Procfs)
	if err != nil {
		return err
	}
	if _, err := checkpoint.Sweep(a.opts.StateDir, ""); err != nil {
		a.log.Warn("remove temporary files of an earlier run", "error", err)
	}
	if a.health, err = health.Open(health.Options{
		Path: filepath.Join(a.opts.StateDir, "health"), BootID: bootID, Now: time.Now, Log: a.log,
	}); err != nil {
		return fmt.Errorf("open the health state: %w", err)
	}
	if a.book, err = holders.Open(holders.Options{
		Path: filepath.Join(a.opts.StateDir, "usage"), BootID: bootID,
		Socket:     filepath.Join(a.opts.KubeletDir, "pod-resources", "kubelet.sock"),
		Checkpoint: filepath.Join(a.opts.KubeletDir, "device-plugins", "kubelet_internal_checkpoint"),
		Rewrite:    func() { a.plugin.Repeat() },
		Resolve:    a.resolve,
		Owns:       func(name string) bool { return a.plans.InForce().Mapper.Owns(name) },
		Interval:   a.opts.Timing.UsagePoll,
		Timing:     a.opts.Timing.Usage,
		Log:        a.log,
	}); err != nil {
		return fmt.Errorf("open the book of holders: %w", err)
	}
	if a.cdi, err = cdi.Open(cdi.Options{Dir: a.opts.CDIDir, Files: a.files, Adopted: a.book.Suspect, Log: a.log, Timing: a.opts.Timing.CDI}); err != nil {
		return fmt.Errorf("open the CDI directory: %w", err)
	}
	if err := errors.Join(a.openKubelet(), a.ownSpecs(a.plans.InForce())); err != nil {
		return errors.Join(err, a.cdi.Close(nil))
	}
	// Containers may hold devices of backends that this configuration does not have.
	held := map[string]bool{}
	for key := range a.book.Allocations() {
		held[key.Backend] = true
	}
	a.cdi.Adopt(slices.Sorted(maps.Keys(held)))
	a.conflicts = a.newConflicts()
	a.active.Store(true)
	return nil
}
