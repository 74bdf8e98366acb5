package nvidia

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/nvidia/labels"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/nvidia/reset"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// settings are the node's configuration; README.md is the reference.
type settings struct {
	MIG migSettings  `json:"mig"`
	XID xid.Settings `json:"xid"`
	// Health has what of a GPU other than XIDs is no fault.
	Health healthSettings `json:"health"`
	Edits  edits.Settings `json:"edits"`
	// Prepare are the steps before a container starts.
	Prepare prepareSettings `json:"prepare"`
	// Reset is how GPUs are reset.
	Reset reset.Settings `json:"reset"`
	// MPS shares whole GPUs by NVIDIA's Multi-Process Service; without it they are
	// not shared.
	MPS *mps.Settings `json:"mps"`
	// TimeSlicing lets holders of whole GPUs set the length of their time slices.
	TimeSlicing *timeSlicingSettings `json:"timeSlicing"`
	// Labels change labels of the node.
	Labels labels.Settings `json:"labels"`
	// Library is the path of libnvidia-ml.so.1; by default it is searched in the
	// driver root.
	Library string `json:"library"`
	// Rescan is the interval at which the GPUs are read without an event.
	Rescan sdk.Duration `json:"rescan"`
}

type migSettings struct {
	Strategy strategy `json:"strategy"`
	// StateFile has the MIG devices that Prepare made, with the strategy dynamic.
	StateFile string `json:"stateFile"`
}

type healthSettings struct {
	// Ignore are codes of [gpu.Codes].
	Ignore []string `json:"ignore"`
}

// defaultStateFile is in the state directory of the chart and the packages.
const defaultStateFile = "/var/lib/accelmux/backends/nvidia/mig.json"

// strategy selects how MIG devices are listed, by the names of NVIDIA's own plugin.
type strategy string

const (
	// migNone: GPUs are listed as a whole, in MIG mode or not.
	migNone strategy = "none"
	// migSingle: MIG devices are listed as GPUs; all must be of one profile.
	migSingle strategy = "single"
	// migMixed: MIG devices are a class of their own, besides whole GPUs that are
	// not in MIG mode.
	migMixed strategy = "mixed"
	// migDynamic: MIG devices of every profile in every place are potential devices, besides whole
	// GPUs that are not in MIG mode.
	migDynamic strategy = "dynamic"
)

// prepareSettings are the steps before a container starts. By default there are none,
// and devices do not request the call.
//
// If another container has the device allocated, too, processes and memory on it count
// as that container's, and it is not reset.
type prepareSettings struct {
	// Check reads the driver for faults right before the start.
	Check bool `json:"check"`
	// Leftovers is the reaction to processes on the device: ignore (default), report
	// in the log, or fail the start.
	Leftovers process.Leftovers `json:"leftovers"`
	// MaxMemoryUsedMiB fails the start if more of the device's memory is in use, for instance
	// because it was not freed; 0: not checked. The driver itself needs some.
	MaxMemoryUsedMiB uint64 `json:"maxMemoryUsedMiB"`
	// Reset resets the container's GPUs before it starts, if that affects no other
	// device and no process uses them; otherwise it does nothing.
	Reset bool `json:"reset"`
}

// check adds errors of the settings.
func (p prepareSettings) check(at string, host sdk.HostPaths, errs *sdk.FieldErrors) {
	p.Leftovers.Check(at+".leftovers", host.Procfs, errs)
}

// wanted reports whether there is any step.
func (p prepareSettings) wanted() bool {
	return p.Check || p.Leftovers.Wanted() || p.MaxMemoryUsedMiB > 0 || p.Reset
}

// started is when the backend started, for the label gfd.timestamp.
var started = time.Now()

const (
	defaultRescan = 30 * time.Second
	minRescan     = time.Second
	maxRescan     = time.Hour
)

// config has the checked settings. It never changes.
type config struct {
	strategy strategy
	// stateFile is the file of made; "" unless the strategy is dynamic. made has the MIG devices that
	// Prepare made.
	stateFile string
	made      *made.Record
	checks    gpu.Checks
	maker     *edits.Maker
	mps       *mps.Config // nil if GPUs are not shared
	slicing   *slicing    // nil if the length of time slices is not set
	driver    driver.Options
	host      sdk.HostPaths
	rescan    time.Duration
	prepare   prepareSettings
	means     *reset.Means
	labels    *labels.Labeler
}

// configure checks the settings as a whole.
func configure(data json.RawMessage, host sdk.HostPaths, getenv func(string) string, log *slog.Logger) (*config, error) {
	s := settings{MIG: migSettings{Strategy: migNone}, Rescan: sdk.Duration(defaultRescan)}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	cfg := &config{strategy: s.MIG.Strategy, host: host, rescan: errs.Between("rescan", s.Rescan, minRescan, maxRescan), prepare: s.Prepare}
	cfg.checks.Ignore = map[string]bool{}
	for _, code := range s.Health.Ignore {
		cfg.checks.Ignore[code] = true
	}
	var err error
	if cfg.checks.Table, err = xid.New("xid", s.XID, xid.Environment{Disable: getenv(xid.EnvDisable), Enable: getenv(xid.EnvEnable)}); err != nil {
		errs = append(errs, fieldErrors(err)...)
	}
	if cfg.maker, err = edits.New("edits", s.Edits, host, log); err != nil {
		errs = append(errs, fieldErrors(err)...)
	}
	root := s.Edits.DriverRootMount
	if root == "" {
		root = s.Edits.DriverRoot
	}
	s.Prepare.check("prepare", host, &errs)
	cfg.means = reset.NewMeans(s.Reset, root, host)
	if s.MPS != nil {
		place := mps.Root{Here: cmp.Or(root, "/"), Host: cmp.Or(s.Edits.DriverRoot, "/")}
		if cfg.mps, err = mps.New("mps", *s.MPS, place); err != nil {
			errs = append(errs, fieldErrors(err)...)
		}
	}
	cfg.labels = labels.New(s.Labels, host.Sysfs, started)
	if s.MIG.Strategy == migDynamic {
		cfg.stateFile = cmp.Or(s.MIG.StateFile, defaultStateFile)
	}
	if s.TimeSlicing != nil {
		cfg.slicing = newSlicing(*s.TimeSlicing, cfg, &errs)
	}
	cfg.driver = driver.Options{Library: s.Library, Root: root, ProcFS: host.Procfs, Partitions: s.MIG.Strategy == migDynamic}
	return cfg, errs.Err()
}

// sharing returns how GPUs are shared, with the status of the client's daemon.
func (c *config) sharing(daemon *mps.Client) *sharing {
	if c.mps == nil {
		return nil
	}
	return &sharing{config: c.mps, notReady: daemon.NotReady}
}

// fieldErrors returns the field errors of a part of the settings.
func fieldErrors(err error) sdk.FieldErrors {
	if errs, ok := err.(sdk.FieldErrors); ok { //nolint:errorlint // the parts return it as it is
		return errs
	}
	return sdk.FieldErrors{{Message: err.Error()}}
}
