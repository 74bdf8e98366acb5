package device

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/sdk"
)

// settings are those of the node's configuration; docs/device.md documents them. The core has replaced presets, which are in
// the manifest, by plain kinds.
type settings struct {
	Kinds []description.Kind `json:"kinds"`
	// Interval is the time between readings of the files of health; see [engine.Poller].
	Interval sdk.Duration `json:"interval"`
	// Edits define what a container gets with a device in addition.
	Edits devnode.Settings `json:"edits"`
	// StateDir has the records of what Prepare did, and of interfaces in pods; empty for [recordsDir].
	StateDir string `json:"stateDir"`
}

const (
	defaultInterval, minInterval, maxInterval = time.Second, time.Second, time.Hour
	// scanInterval is the time between scans where there may be no event, unless interval is longer.
	scanInterval = 30 * time.Second
)

// config has the settings as they are used. It is never changed.
type config struct {
	settings
	host     sdk.HostPaths
	interval time.Duration
	kinds    []*description.Compiled
}

// scans returns the time between scans where there may be no event.
func (c *config) scans() time.Duration { return max(c.interval, scanInterval) }

// Check returns what is wrong with settings, without hardware: an [sdk.FieldErrors].
func Check(data json.RawMessage) error {
	_, err := configure(data, sdk.HostPaths{})
	return err
}

// configure checks the settings as a whole.
func configure(data json.RawMessage, host sdk.HostPaths) (*config, error) {
	s := settings{Interval: sdk.Duration(defaultInterval), Edits: devnode.Settings{Groups: devnode.Auto}}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	cfg := &config{settings: s, host: host, interval: errs.Between("interval", s.Interval, minInterval, maxInterval)}
	names := make([]string, len(s.Kinds))
	for i, k := range s.Kinds {
		names[i] = k.Name
		at := fmt.Sprintf("kinds[%d]", i)
		cfg.kinds = append(cfg.kinds, description.Compile(at, k, &errs))
	}
	description.CheckNames("kinds", names, &errs)
	cfg.checkHeartbeats(&errs)
	return cfg, errs.Err()
}

// checkHeartbeats checks that files are read often enough for the heartbeats of the kinds.
func (c *config) checkHeartbeats(errs *sdk.FieldErrors) {
	for _, k := range c.kinds {
		for _, h := range k.Health {
			if h.Heartbeat != "" && h.Within < c.interval {
				errs.Add("interval", "%v is more than the %v in which the heartbeat %s of the kind %s must change: give at most that, or the heartbeat a longer within", c.interval, h.Within, h.Heartbeat, k.Name)
			}
		}
	}
}
