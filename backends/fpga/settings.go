package fpga

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/fpga/alveo"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/manager"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// settings are those of the node's configuration; README.md documents them.
type settings struct {
	// Mode is what ports of Intel's cards are listed as.
	Mode mode `json:"mode"`
	// Management gives containers the nodes that manage the card, too, with which all of it
	// can be programmed.
	Management bool `json:"management"`
	// Drivers are the names of those in use.
	Drivers []string `json:"drivers"`
	// Bitstreams is the directory of the files that containers may ask for; empty:
	// nothing is programmed.
	Bitstreams string `json:"bitstreams"`
	// StateFile has the functions that claims have; only in modeDynamic.
	StateFile string `json:"stateFile"`
	// Prepare is what is done before a container starts.
	Prepare prepareSettings  `json:"prepare"`
	Health  healthSettings   `json:"health"`
	Edits   devnode.Settings `json:"edits"`
	XRT     alveo.Settings   `json:"xrt"`
	Manager managerSettings  `json:"manager"`
}

// driverNames are the names of the drivers, in the order of their precedence: a card that two
// of them find belongs to the first.
var driverNames = []string{"dfl", "opae", "xrt", "ama", "manager"}

// mode is what ports of Intel's cards are listed as, by the names of Intel's own plugin.
type mode string

const (
	// modeAF: by the accelerator function that is loaded.
	modeAF mode = "af"
	// modeDevel: by the interface that bitstreams must fit, as with the schema's region, with the nodes to program a region by.
	modeDevel mode = "region-devel"
	// modeDynamic: by each function that a bitstream on the node has for it, of which claims have one
	// programmed.
	modeDynamic mode = "dynamic"
)

// prepareSettings are what is done before a container starts, beside programming.
type prepareSettings struct {
	// Reset resets a region that no other container has.
	Reset bool `json:"reset"`
	// Leftovers is what is done about processes that use it.
	Leftovers process.Leftovers `json:"leftovers"`
}

// healthSettings define what is a fault.
type healthSettings struct {
	// Interval is the time between scans without an event: cards, error registers, what is
	// loaded.
	Interval sdk.Duration `json:"interval"`
	// Sensors is how often the sensors of a card are read; 0: only for telemetry.
	Sensors sdk.Duration `json:"sensors"`
	// Alarms is what is done about alarms of sensors.
	Alarms reaction `json:"alarms"`
	// Ignore are causes that are no fault, such as pcie0_errors.
	Ignore []string `json:"ignore"`
}

// reaction is what is done about something that is not always a fault.
type reaction string

const (
	ignore reaction = "ignore"
	report reaction = "report"
	fault  reaction = "fault"
)

const (
	defaultInterval, minInterval, maxInterval = 30 * time.Second, time.Second, time.Hour
	defaultSensors, minSensors, maxSensors    = time.Minute, 5 * time.Second, time.Hour
)

// config has the settings as they are used. It is never changed.
type config struct {
	settings
	host              sdk.HostPaths
	interval, sensors time.Duration
	// made are the functions that claims have; nil unless the mode is modeDynamic.
	made *made.Record
}

// defaultStateFile is in the state directory of the chart and the packages.
const defaultStateFile = "/var/lib/accelmux/backends/fpga/functions.json"

// configure checks the settings as a whole.
func configure(data json.RawMessage, host sdk.HostPaths) (*config, error) {
	s := settings{
		Mode: modeAF, Drivers: slices.Clone(driverNames), Edits: devnode.Settings{Groups: devnode.Auto},
		Health:  healthSettings{Interval: sdk.Duration(defaultInterval), Sensors: sdk.Duration(defaultSensors), Alarms: fault},
		Manager: managerSettings{Firmware: manager.Defaults().Firmware, Flags: manager.Defaults().Flags},
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	s.check(host, &errs)
	if s.StateFile = cmp.Or(s.StateFile, defaultStateFile); s.Mode != modeDynamic {
		s.StateFile = ""
	}
	return &config{
		settings: s, host: host, interval: time.Duration(s.Health.Interval), sensors: time.Duration(s.Health.Sensors),
	}, errs.Err()
}

func (s *settings) check(host sdk.HostPaths, errs *sdk.FieldErrors) {
	if s.Mode == modeDynamic && s.Bitstreams == "" {
		errs.Add("bitstreams", "the mode dynamic needs the directory of the bitstreams that claims may have")
	}
	s.Prepare.Leftovers.Check("prepare.leftovers", host.Procfs, errs)
	errs.Between("health.interval", s.Health.Interval, minInterval, maxInterval)
	if d := time.Duration(s.Health.Sensors); d != 0 && (d < minSensors || d > maxSensors) {
		errs.Add("health.sensors", "%v must be 0s, or between %v and %v", d, minSensors, maxSensors)
	}
}

// hooked reports whether there is anything to do before a container starts.
func (s *settings) hooked() bool {
	return s.Bitstreams != "" || s.Prepare.Reset || s.Prepare.Leftovers.Wanted()
}

// The classes of devices.
const (
	// classAF is a port of Intel's that is listed by the accelerator function in it.
	classAF = "af"
	// classRegion is a region that is listed by the interface that bitstreams must fit.
	classRegion = "region"
	// classCard is a whole card with a shell.
	classCard = "card"
)

// classOf returns the class of a region. A port that does not report what is loaded cannot be
// listed by that.
func (s *settings) classOf(r driver.Region) string {
	switch {
	case r.Kind == driver.Platform:
		return classCard
	case r.Kind == driver.Port && s.Mode == modeAF && r.State != driver.Unreported:
		return classAF
	}
	return classRegion
}

// managed reports whether a container gets the nodes that manage the card. In the mode
// for developers it gets only those of its own function: through those of the physical
// function a virtual one would program all others.
func (s *settings) managed(card driver.Card, region driver.Region) bool {
	return s.Management || s.Mode == modeDevel && region.Kind == driver.Port && !card.Virtual
}

// programs reports whether containers can have a region programmed.
func (s *settings) programs(r driver.Region) bool { return s.Bitstreams != "" && r.Programmable }

// ignores reports whether settings ignore a fault.
func (s *settings) ignores(f driver.Fault) bool {
	return f.Cause != "" && slices.Contains(s.Health.Ignore, f.Cause)
}

// senses reports whether sensors are read without a request for telemetry.
func (c *config) senses() bool { return c.sensors > 0 && c.Health.Alarms != ignore }

// managerSettings are those of the driver manager; see [manager.Settings].
type managerSettings struct {
	Firmware string `json:"firmware"`
	Flags    uint32 `json:"flags"`
}
