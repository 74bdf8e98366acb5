package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/dra"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/pcibus"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/page"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/takeover"
	"github.com/accelmux/accelmux/core/telemetry"
)

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
	parts
	outputs
	pipeline

	// claim is that of this agent to the state directory. active: the state directory is
	// open. ending: another agent takes over.
	claim          *takeover.Claim
	active, ending atomic.Bool
	runLock        *takeover.FileLock
	// onDuty are the goroutines that end before another agent gets the state directory,
	// serving those that go on until kubelet is connected to that agent.
	onDuty, serving sync.WaitGroup
}

// parts are what makes resources of devices and serves them, upstream first. Those from
// health on are nil until this is the active agent.
type parts struct {
	// files announces changes of files; nil where the kernel cannot.
	files *filewatch.Watcher
	// node watches the Node; nil without an API server.
	node *profile.Watcher
	// memory stores what is in force for the next start.
	memory *profile.Memory
	plans  *profile.Switch
	// manifests is ready after something changed in the backend directory; one slot.
	manifests chan struct{}
	// hardware is what the manifests serve that were in the backend directory at the start.
	hardware   func() pcibus.Table
	supervisor *supervisor.Supervisor
	inventory  *inventory.Store
	health     *health.Judge
	pods       *podresources.Kubelet
	book       *holders.Book
	cdi        *cdi.Store
	lifecycle  *lifecycle.Lifecycle
	earlier    *round.Earlier
	plugin     *deviceplugin.Plugin
	dra        *dra.Frontend
	claims     *dra.Reconciler
	conflicts  *conflict.Detector
	// known are the resources that kubelet's device manager knew when this agent became active.
	known map[string]bool
}

// outputs are what shows the node to people and programs.
type outputs struct {
	// events writes Events; nil without an API server.
	events  *events.Recorder
	journal *events.Journal
	// condition writes the Node's condition; nil for none.
	condition *condition.Writer
	// features publishes what the node has; nil for nowhere.
	features  *features.Publisher
	telemetry *telemetry.Telemetry
	// tally counts calls for the metrics.
	tally *status.Tally
	// metrics and probes are served over TCP; nil for nowhere.
	metrics, probes *status.Endpoint
	// page is the one that metrics serves.
	page *page.Page
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
	loaded, err := profile.Load(opts.ConfigPath, opts.Profile, opts.byLabels(), a.checkSettings, a.memory)
	if err != nil {
		if opts.NodeCondition && opts.Cluster != nil && claim.Active() == nil {
			condition.Report(condition.Options{Client: opts.Cluster, Node: opts.NodeName, Log: opts.Log, Timing: opts.Timing.Condition}, err)
		}
		return nil, err
	}
	a.file = loaded.File
	a.hardware = sync.OnceValue(func() pcibus.Table { return manifest.HardwareOf(opts.BackendDir) })
	a.telemetry = telemetry.New(telemetry.Options{
		Sample: a.sample, Owners: a.owners, Reserved: status.Named(telemetry.Prefix), Log: a.log, Timing: opts.Timing.Telemetry,
	})
	if opts.MetricsAddress != "" {
		a.page = page.New(a.Source, func() []events.Change { return a.journal.Changes() }, a.log)
		if a.metrics, err = status.NewMetrics(opts.MetricsAddress, a.Source, a.tally, a.page, a.log, a.telemetry); err != nil {
			return nil, err
		}
	}
	if opts.ProbeAddress != "" {
		if a.probes, err = status.NewProbes(opts.ProbeAddress, a.Source, a.log); err != nil {
			return nil, err
		}
	}
	switch err := errors.Join(makeDir(opts.StateDir, opts.Log), makeDir(opts.RunDir, opts.Log)); {
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
	if a.supervisor, err = supervisor.New(supervisor.Options{
		BackendDir: opts.BackendDir, Sink: sink{a}, Log: a.log, Timing: opts.Timing.Supervisor,
		Plug: plug.Options{
			RunDir: opts.RunDir, Paths: opts.HostPaths.wire(), Reaper: opts.Reaper, Launchers: opts.Launchers, OwnDir: filepath.Join(opts.StateDir, inventory.OwnDirectories),
			Hidden: []string{opts.StateDir, opts.KubeletDir, opts.KubeletRootDir, opts.CDIDir}, Cgroups: true,
		},
	}); err != nil {
		return nil, fmt.Errorf("open the supervisor: %w", err)
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
		parts: parts{
			memory: profile.OpenMemory(profile.MemoryOptions{
				Path: filepath.Join(opts.StateDir, "profile"), Node: opts.NodeName, Configuration: opts.ConfigPath, Log: opts.Log,
			}),
			inventory: inventory.NewStore(time.Now), manifests: make(chan struct{}, 1),
		},
		outputs:  outputs{tally: status.NewTally()},
		pipeline: pipeline{wake: make(chan struct{}, 1), nodes: round.Nodes{Host: opts.host()}},
	}
}

// lockPatience is how long a lock may outlive the agent that had it: a backend that was being
// started when the agent was killed has the agent's files open until it runs its own program.
const lockPatience = time.Second

// patiently tries to lock something, for lockPatience if another process has it, and logs
// that.
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
			log.Info("waiting for another agent to end", "error", err, "limit", lockPatience)
		}
		<-tick.C
	}
}
