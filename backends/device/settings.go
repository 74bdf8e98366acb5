package device

import (
	"cmp"
	_ "embed" // settings.schema.json
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/presets"
	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/sdk"
)

//go:embed settings.schema.json
var settingsSchema string

// schemaWithPresets is the schema with the names of the presets, which editors offer and
// `accelmux discover` tries.
func schemaWithPresets() string {
	names, _ := json.Marshal(presets.Names()) // of strings
	return strings.Replace(settingsSchema, `"items": {"type": "string"}`, `"items": {"enum": `+string(names)+`}`, 1)
}

// settings are those of the node's configuration; docs/device.md documents them.
type settings struct {
	// Presets are names of kinds that come with the backend. A kind in Kinds of the same name
	// replaces one.
	Presets []string `json:"presets"`
	Kinds   []kind   `json:"kinds"`
	// Interval is the time between readings of the files of health; see [engine.Poller].
	Interval sdk.Duration `json:"interval"`
	// Edits define what a container gets with a device in addition.
	Edits devnode.Settings `json:"edits"`
	// StateDir has the records of what Prepare did, and of interfaces in pods; empty for [recordsDir].
	StateDir string `json:"stateDir"`
}

// kind is a description, whole or built on a preset.
type kind struct {
	// Preset is the name of a preset; each field that is given replaces that of the preset: Match
	// as a whole, Edits, Telemetry and DeviceInfo field by field.
	Preset string `json:"preset"`
	description.Kind
}

// UnmarshalJSON implements [json.Unmarshaler]. Its errors are [sdk.FieldErrors].
func (k *kind) UnmarshalJSON(data []byte) error {
	var given struct {
		Preset string    `json:"preset"`
		Match  *struct{} `json:"match"`
	}
	_ = json.Unmarshal(data, &given) // the whole is checked below
	var errs sdk.FieldErrors
	if given.Preset != "" {
		preset, err := presets.Get(given.Preset)
		if err != nil {
			errs.Add("preset", "%v", err)
		}
		if given.Match != nil {
			preset.Match = description.Match{}
		}
		k.Kind = preset
	}
	type fields kind // has no UnmarshalJSON
	if err := sdk.DecodeSettings(data, (*fields)(k)); err != nil {
		return err
	}
	return errs.Err()
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

// Needs returns what settings need of the node; the error is that of [Check].
func Needs(data json.RawMessage) (*sdk.Needs, error) {
	cfg, err := configure(data, sdk.HostPaths{})
	if err != nil {
		return nil, err
	}
	return cfg.needs(), nil
}

// configure checks the settings as a whole.
func configure(data json.RawMessage, host sdk.HostPaths) (*config, error) {
	s := settings{Interval: sdk.Duration(defaultInterval), Edits: devnode.Settings{Groups: devnode.Auto}}
	if err := sdk.DecodeSettings(data, &s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	cfg := &config{settings: s, host: host, interval: time.Duration(s.Interval)}
	if cfg.interval < minInterval || cfg.interval > maxInterval {
		errs.Add("interval", "%v must be between %v and %v", cfg.interval, minInterval, maxInterval)
	}
	s.Edits.Check("edits", &errs)
	if s.StateDir != "" && (!filepath.IsAbs(s.StateDir) || filepath.Clean(s.StateDir) != s.StateDir) {
		errs.Add("stateDir", "%q must be an absolute path without . or ..", s.StateDir)
	}
	names := make([]string, len(s.Kinds))
	for i, k := range s.Kinds {
		names[i] = k.Name
		at := fmt.Sprintf("kinds[%d]", i)
		cfg.kinds = append(cfg.kinds, description.Compile(at, k.Kind, &errs))
		cfg.checkHeartbeats(at, &errs)
	}
	description.CheckNames("kinds", names, &errs)
	for i, name := range s.Presets {
		at := fmt.Sprintf("presets[%d]", i)
		if slices.Contains(s.Presets[:i], name) {
			errs.Add(at, "%q is there twice: keep one", name)
			continue
		}
		k, err := presets.Get(name)
		if err != nil {
			errs.Add(at, "%v", err)
			continue
		}
		if !slices.Contains(names, name) {
			cfg.kinds = append(cfg.kinds, description.Compile(at, k, &errs))
			cfg.checkHeartbeats("", &errs)
		}
	}
	return cfg, errs.Err()
}

// checkHeartbeats checks that files are read often enough for the heartbeats of the last kind. At is
// its path; empty for a preset.
func (c *config) checkHeartbeats(at string, errs *sdk.FieldErrors) {
	k := c.kinds[len(c.kinds)-1]
	for i, h := range k.Health {
		switch {
		case h.Heartbeat == "" || h.Within >= c.interval:
		case at == "":
			errs.Add("interval", "%v is more than the %v in which the heartbeat of the preset %s must change: give at most that", c.interval, h.Within, k.Name)
		case h.Health.Within == 0:
			errs.Add(fmt.Sprintf("%s.health[%d].within", at, i), "%v, the default, is less than interval, %v: files are read once in that", h.Within, c.interval)
		default:
			errs.Add(fmt.Sprintf("%s.health[%d].within", at, i), "%v is less than interval, %v: files are read once in that", h.Within, c.interval)
		}
	}
}

// needs returns what the kinds need of the node.
func (c *config) needs() *sdk.Needs {
	needs := &sdk.Needs{}
	if c == nil {
		return needs
	}
	nodes, mounts, readOnly, env, write := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	interfaces := map[string]bool{}
	for _, k := range c.kinds {
		known := map[string][]string{"name": k.Match.Names, "node": k.Match.OwnNodes(), "kind": {k.Name}}
		add := func(to map[string]bool, t *expression.Template) {
			for _, pattern := range t.Patterns(known) {
				to[pattern] = true
			}
		}
		for _, n := range k.Nodes {
			add(nodes, n.Path)
		}
		if len(k.Nodes)+len(k.NetDevices) == 0 && k.Match.PCI == nil {
			for _, node := range known["node"] {
				nodes[node] = true
			}
		}
		for _, m := range k.Mounts {
			if m.Writable {
				add(mounts, m.Path)
			} else {
				add(readOnly, m.Path)
			}
		}
		for _, n := range k.NetDevices {
			add(interfaces, n.Host)
		}
		for name := range k.Env {
			env[name] = true
		}
		for name := range k.JoinedEnv {
			env[name] = true
		}
		if k.DeviceInfo.Resource != "" {
			write[c.onHost(infoDir)+"/**"] = true
		}
		if k.Reset != nil || len(k.Prepare) > 0 {
			write["/sys/**"] = true
		}
		if len(k.Prepare) > 0 || readsInterfaces(k) {
			write[cmp.Or(c.StateDir, recordsDir)+"/**"] = true
		}
	}
	for node := range maps.Clone(nodes) {
		for _, linked := range linkedNodes(node) {
			nodes[linked] = true
		}
	}
	needs.DeviceNodes, needs.Mounts, needs.ReadOnlyMounts = sorted(nodes), sorted(mounts), sorted(readOnly)
	needs.Env, needs.WritePaths, needs.NetDevices = sorted(env), sorted(write), sorted(interfaces)
	if len(c.nodeDirs()) > 0 {
		needs.SystemCalls = []string{"@inotify"}
	}
	return needs
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
