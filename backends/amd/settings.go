package amd

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/reset"
	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// settings are those of the node's configuration; README.md documents them.
type settings struct {
	Partitions partitionSettings `json:"partitions"`
	// Integrated is which GPUs that are part of a processor are listed.
	Integrated gpu.Integrated   `json:"integrated"`
	Health     healthSettings   `json:"health"`
	Edits      devnode.Settings `json:"edits"`
	// Prepare is what is done before a container starts.
	Prepare prepareSettings `json:"prepare"`
	// Reset is how GPUs are reset.
	Reset reset.Settings `json:"reset"`
	// Rescan is the interval between scans without an event; Poll is how often KFD's
	// generation is read, which changes with its topology.
	Rescan sdk.Duration `json:"rescan"`
	Poll   sdk.Duration `json:"poll"`
}

type partitionSettings struct {
	Strategy strategy `json:"strategy"`
	// StateFile has the partitions that Prepare gave to holders, with the strategy dynamic.
	StateFile string `json:"stateFile"`
}

const (
	defaultStateFile  = "/var/lib/accelmux/backends/amd/partitions.json"
	defaultErrorsFile = "/var/lib/accelmux/backends/amd/errors.json"
)

// strategy decides which class partitions have, in the words of AMD's own plugin.
type strategy string

const (
	// single: partitions have the class of whole GPUs.
	single strategy = "single"
	// dynamic: partitions have a class of their own, as with the schema's third value, mixed, and GPUs are switched for claims. AMD's plugin has no such strategy.
	dynamic strategy = "dynamic"
)

// healthSettings decide what is a fault.
type healthSettings struct {
	// Interval is how often the error counters of a card are read.
	Interval sdk.Duration `json:"interval"`
	// Uncorrectable is how many uncorrectable errors a card may count before it is
	// faulty.
	Uncorrectable uint64 `json:"uncorrectable"`
	// BadPages is how many pages of its memory may be retired before the card needs to
	// be replaced; 0: as many as the driver allows.
	BadPages uint64 `json:"badPages"`
	// XGMI is what is done about errors that the links count in xgmi_error. Unless it is
	// ignore that file is read, which clears it.
	XGMI reaction `json:"xgmi"`
	// Thermal is what is done about a GPU that heat throttles.
	Thermal reaction `json:"thermal"`
	// Events: KFD's events are read.
	Events bool `json:"events"`
	// StateFile has the errors that resets have cured.
	StateFile string `json:"stateFile"`
	// Exporter is the socket of AMD's device metrics exporter; empty: it is not used.
	Exporter string `json:"exporter"`
}

// reaction is what is done about something that is not always a fault.
type reaction string

const (
	ignore reaction = "ignore"
	report reaction = "report"
	fault  reaction = "fault"
)

// prepareSettings are what is done before a container starts: by default nothing, and devices
// have no hook.
type prepareSettings struct {
	// Check has the GPU scanned right before the start.
	Check bool `json:"check"`
	// Leftovers is what is done about processes on the device before its container starts.
	Leftovers process.Leftovers `json:"leftovers"`
}

// wanted reports whether anything is to be done.
func (p prepareSettings) wanted() bool { return p.Check || p.Leftovers.Wanted() }

const (
	defaultRescan, minRescan, maxRescan       = 5 * time.Minute, time.Second, time.Hour
	defaultPoll, minPoll, maxPoll             = 2 * time.Second, 100 * time.Millisecond, time.Minute
	defaultInterval, minInterval, maxInterval = 30 * time.Second, time.Second, time.Hour
)

// config is what the settings mean. It is never changed.
type config struct {
	strategy strategy
	// stateFile is the file of made; both are unset unless the strategy is dynamic. made has the partitions that
	// Prepare gave to holders.
	stateFile    string
	made         *made.Record
	cured        *cured
	integrated   gpu.Integrated
	health       healthSettings
	edits        devnode.Settings
	prepare      prepareSettings
	reset        reset.Settings
	host         sdk.HostPaths
	rescan, poll time.Duration
	interval     time.Duration
}

// configure checks the settings as a whole.
func configure(data json.RawMessage, host sdk.HostPaths) (*config, error) {
	s := settings{
		Partitions: partitionSettings{Strategy: single}, Integrated: gpu.IntegratedCompute,
		Health: healthSettings{Interval: sdk.Duration(defaultInterval), XGMI: ignore, Thermal: report},
		Edits:  devnode.Settings{Groups: devnode.Auto},
		Rescan: sdk.Duration(defaultRescan), Poll: sdk.Duration(defaultPoll),
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	cfg := &config{
		strategy: s.Partitions.Strategy, integrated: s.Integrated, health: s.Health, edits: s.Edits, prepare: s.Prepare, reset: s.Reset, host: host,
		rescan:   errs.Between("rescan", s.Rescan, minRescan, maxRescan),
		poll:     errs.Between("poll", s.Poll, minPoll, maxPoll),
		interval: errs.Between("health.interval", s.Health.Interval, minInterval, maxInterval),
	}
	cfg.dynamic(s, &errs)
	cfg.health.StateFile = cmp.Or(s.Health.StateFile, defaultErrorsFile)
	if s.Health.Thermal == fault && !s.Health.Events {
		errs.Add("health.thermal", "fault needs health.events: true, since heat is reported by KFD's events alone")
	}
	s.Prepare.Leftovers.Check("prepare.leftovers", host.Procfs, &errs)
	return cfg, errs.Err()
}

// dynamic is what the strategy dynamic makes of the settings. KFD's events exclude it: before Linux 6.17 the driver
// switches no GPU while any process lives that has opened /dev/kfd once, since then none that such a process may use
// (kgd2kfd_check_and_lock_kfd in drivers/gpu/drm/amd/amdkfd/kfd_device.c).
func (c *config) dynamic(s settings, errs *sdk.FieldErrors) {
	on := s.Partitions.Strategy == dynamic
	if !on {
		return
	}
	if s.Health.Events {
		errs.Add("health.events", "true is not possible with partitions.strategy dynamic: the driver switches no GPU that a process may use which has opened /dev/kfd")
	}
	c.stateFile = cmp.Or(s.Partitions.StateFile, defaultStateFile)
}
