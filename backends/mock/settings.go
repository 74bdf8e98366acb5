package mock

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Limits of the contract and our own.
const (
	maxDevices    = backendplugin.MaxDevices
	maxPartitions = 64
	maxLinks      = 1024
)

// settings are those of the node's configuration; README.md documents them.
type settings struct {
	group                // one kind of device, or else:
	Devices      []group `json:"devices"`
	ScenarioFile string  `json:"scenarioFile"`
	ChangeLog    string  `json:"changeLog"`
	CallLog      string  `json:"callLog"`
	StateFile    string  `json:"stateFile"`
}

// group is a number of devices of one kind. Strings marked T have placeholders.
type group struct {
	Count      *int                `json:"count"`
	Class      string              `json:"class"`
	Model      string              `json:"model"`
	Memory     quantity            `json:"memory"`
	Capacities map[string]quantity `json:"capacities"`
	NUMANodes  *numaNodes          `json:"numaNodes"`
	ID         string              `json:"id"` // T
	Attributes map[string]value    `json:"attributes"`
	Links      *links              `json:"links"`
	Partitions *partitions         `json:"partitions"`
	Shares     map[string]share    `json:"shares"`
	Edits      *edits              `json:"edits"`
	AdminEdits *edits              `json:"adminEdits"`
	Hooks      []string            `json:"hooks"`
	Holders    uint32              `json:"holders"`
	Prepare    *prepare            `json:"prepare"`
	Release    *behaviour          `json:"release"`
	Reset      *resetBehaviour     `json:"reset"`
}

// links are those among the whole devices of a group.
type links struct {
	Topology string `json:"topology"`
	Size     int    `json:"size"`
	Kind     string `json:"kind"`
	Count    uint32 `json:"count"`
	Distance uint32 `json:"distance"`
}

// partitions take the place of a device, or come beside it: Count that exist, or potential ones of Profiles.
type partitions struct {
	Count      int  `json:"count"`
	ListParent bool `json:"listParent"`
	// Profiles are the sizes of potential partitions, in slices of the device, by name. Slices is how many
	// the device has.
	Profiles map[string]int `json:"profiles"`
	Slices   int            `json:"slices"`
}

// behaviour is the behaviour of a hook.
type behaviour struct {
	Delay sdk.Duration `json:"delay"`
	Error string       `json:"error"`
}

// prepare is what Prepare does.
type prepare struct {
	behaviour
	Edits *edits `json:"edits"`
	// Slow: the device is reported as slow to prepare.
	Slow bool `json:"slow"`
}

// resetBehaviour is the result of a reset.
type resetBehaviour struct {
	Delay   sdk.Duration `json:"delay"`
	Result  string       `json:"result"`
	Message string       `json:"message"`
}

// Results of a reset.
const (
	resetRecovered = "recovered" // the default
	resetFailed    = "failed"
)

// config has the settings as they are used; it is never changed.
type config struct {
	specs        []*spec
	byID         map[string]*spec // the same
	scenarioFile string
	changeLog    string
	callLog      string
	stateFile    string
}

// parseSettings reads settings, and returns [sdk.FieldErrors] if they are wrong. Values that
// make a device which the core refuses, such as a path in its edits, are left to the core.
func parseSettings(data []byte) (*config, error) {
	var s settings
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	cfg := &config{scenarioFile: s.ScenarioFile, changeLog: s.ChangeLog, callLog: s.CallLog, stateFile: s.StateFile}
	groups, path := s.Devices, "devices"
	if s.Devices == nil {
		groups, path = []group{s.group}, ""
	} else if !reflect.DeepEqual(s.group, group{}) {
		errs.Add("devices", "give either one kind of device at the top level, or a list of kinds in devices")
	}
	cfg.specs = expand(groups, path, defaultID, &errs)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	cfg.byID = make(map[string]*spec, len(cfg.specs))
	for _, s := range cfg.specs {
		cfg.byID[s.device.GetId()] = s
	}
	return cfg, nil
}

// check finds what is wrong with a group before it is expanded.
func (g *group) check(path string, errs *sdk.FieldErrors) {
	at := func(name string) string { return field(path, name) }
	if n := g.count(); n < 0 || n > maxDevices {
		errs.Add(at("count"), "%d is out of range: 0 to %d", n, maxDevices)
	}
	for i, h := range g.Hooks {
		if h != "prepare" && h != "release" {
			errs.Add(fmt.Sprintf("%s[%d]", at("hooks"), i), "%q is no hook: prepare or release", h)
		}
	}
	if g.Links != nil {
		g.Links.check(at("links"), g.count(), errs)
	}
	g.Partitions.check(at("partitions"), errs)
	g.checkShares(at("shares"), errs)
	g.Reset.check(at("reset"), errs)
}

func (l *links) check(path string, count int, errs *sdk.FieldErrors) {
	if _, ok := linkKind(l.kind()); !ok {
		errs.Add(field(path, "kind"), "%q is no kind of link: nvlink, nvswitch, xgmi, pcie_switch, pcie_host_bridge, same_numa, cross_numa, other ...", l.Kind)
	}
	peers := 0
	switch l.Topology {
	case "ring":
	case "all-to-all":
		peers = count - 1
	case "hive":
		peers = min(l.Size, count) - 1
		if l.Size < 2 {
			errs.Add(field(path, "size"), "a hive has 2 devices or more, not %d", l.Size)
		}
	default:
		errs.Add(field(path, "topology"), "%q is no topology: all-to-all, ring or hive", l.Topology)
	}
	if peers > maxLinks {
		errs.Add(field(path, "topology"), "%s among %d devices is too much: at most %d links for a device", l.Topology, peers+1, maxLinks)
	}
}

func (r *resetBehaviour) check(path string, errs *sdk.FieldErrors) {
	if r != nil && r.Result != "" && r.Result != resetRecovered && r.Result != resetFailed {
		errs.Add(field(path, "result"), "%q is no result: %s or %s", r.Result, resetRecovered, resetFailed)
	}
}

func (g *group) count() int {
	if g.Count == nil {
		return 1
	}
	return *g.Count
}

// size returns the number of devices that the group lists.
func (g *group) size() int {
	switch p := g.Partitions; {
	case p == nil:
		return g.count()
	case len(p.Profiles) > 0:
		return g.count() * len(p.placements())
	case p.ListParent:
		return g.count() * (p.Count + 1)
	default:
		return g.count() * p.Count
	}
}

func (l *links) kind() string {
	return or(l.Kind, "nvlink")
}

// field appends a name to a path.
func field(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
