package mock

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

//go:embed settings.schema.json
var settingsSchema string

//go:embed parameters.schema.json
var parametersSchema string

// Limits of the contract and our own.
const (
	maxDevices    = backendplugin.MaxDevices
	maxPartitions = 64
	maxLinks      = 1024
	maxSeparator  = 16
	maxFacts      = 32 // attributes and capacities of a device together
)

// defaultPoll is how often the scenario file is looked at, besides the kernel's
// notifications.
const defaultPoll = 2 * time.Second

// classes are those that a mock device may have. The contract wants them
// described before there are settings, so the list is fixed.
var classes = []string{"gpu", "npu", "tpu", "fpga", "asic", "nic", "dpu", "vpu", "device"}

// settings are what the node's configuration says; README.md is the reference.
type settings struct {
	group                 // one kind of device, or else:
	Devices      []group  `json:"devices"`
	Seed         uint64   `json:"seed"`
	ScenarioFile string   `json:"scenarioFile"`
	ScenarioPoll duration `json:"scenarioPoll"`
	ChangeLog    string   `json:"changeLog"`
}

// group is a number of devices of one kind. Strings marked T are templates.
type group struct {
	Count      *int                `json:"count"`
	Class      string              `json:"class"`
	Model      string              `json:"model"`
	Memory     quantity            `json:"memory"`
	NUMANodes  *numaNodes          `json:"numaNodes"`
	ID         string              `json:"id"`         // T
	PCIBusID   string              `json:"pciBusId"`   // T
	ResetGroup string              `json:"resetGroup"` // T
	Attributes map[string]value    `json:"attributes"`
	Capacities map[string]quantity `json:"capacities"`
	Links      *links              `json:"links"`
	Partitions *partitions         `json:"partitions"`
	Edits      *edits              `json:"edits"`
	Hooks      []string            `json:"hooks"`
	Holders    uint32              `json:"holders"`
	Prepare    *behaviour          `json:"prepare"`
	Release    *behaviour          `json:"release"`
	Reset      *resetBehaviour     `json:"reset"`
	Telemetry  *bool               `json:"telemetry"`
}

// links are those among the whole devices of a group.
type links struct {
	Topology string `json:"topology"`
	Size     int    `json:"size"`
	Kind     string `json:"kind"`
	Count    uint32 `json:"count"`
	Distance uint32 `json:"distance"`
}

// partitions take the place of a device, or come beside it.
type partitions struct {
	Count      int      `json:"count"`
	ID         string   `json:"id"` // T
	Class      string   `json:"class"`
	Model      string   `json:"model"`
	Memory     quantity `json:"memory"`
	ListParent bool     `json:"listParent"`
}

// behaviour is what a hook does.
type behaviour struct {
	Delay duration `json:"delay"`
	Error string   `json:"error"`
	Edits *edits   `json:"edits"` // Prepare only
}

// resetBehaviour is what a reset comes to.
type resetBehaviour struct {
	Delay   duration `json:"delay"`
	Result  string   `json:"result"`
	Message string   `json:"message"`
}

// Results of a reset.
const (
	resetRecovered = "recovered" // the default
	resetFailed    = "failed"
	resetError     = "error"
	resetMissing   = "missing"
)

// config is what settings come to; it never changes.
type config struct {
	specs        []*spec
	byID         map[string]*spec // the same
	scenarioFile string
	changeLog    string
	poll         time.Duration
	seed         uint64
}

// parseSettings reads settings strictly, as [sdk.FieldErrors] if they are wrong.
func parseSettings(data []byte) (*config, error) {
	var s settings
	if err := sdk.DecodeSettings(data, &s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	cfg := &config{seed: s.Seed, scenarioFile: s.ScenarioFile, changeLog: s.ChangeLog, poll: time.Duration(s.ScenarioPoll)}
	if cfg.poll == 0 {
		cfg.poll = defaultPoll
	}
	if cfg.poll < 10*time.Millisecond {
		errs.Add("scenarioPoll", "%s is too short: at least 10ms", cfg.poll)
	}
	for name, p := range map[string]string{"scenarioFile": s.ScenarioFile, "changeLog": s.ChangeLog} {
		if p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p) {
			errs.Add(name, "%q must be an absolute path without . or ..", p)
		}
	}

	groups, path := s.Devices, "devices"
	if s.Devices == nil {
		groups, path = []group{s.group}, ""
	} else if !reflect.DeepEqual(s.group, group{}) {
		errs.Add("devices", "give either one kind of device at the top level, or a list of kinds in devices")
	}
	cfg.specs = expand(groups, path, defaultID, s.Seed, &errs)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	cfg.byID = make(map[string]*spec, len(cfg.specs))
	for _, s := range cfg.specs {
		cfg.byID[s.device.GetId()] = s
	}
	return cfg, checkSize(cfg.specs)
}

// checkSize refuses settings whose inventory could not be sent.
func checkSize(specs []*spec) error {
	inv := &backendv1.Inventory{}
	for _, s := range specs {
		inv.Devices = append(inv.Devices, s.device)
	}
	const room = 1 << 20 // for what a scenario adds: faults, messages
	if size := proto.Size(inv); size > backendplugin.MaxMessageSize-room {
		return sdk.FieldErrors{{Message: fmt.Sprintf(
			"the inventory would be %d bytes long, more than the contract's limit: fewer devices, links or edits", size)}}
	}
	return nil
}

var factName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)

// check finds what is wrong with a group before it is expanded.
func (g *group) check(path string, errs *sdk.FieldErrors) {
	at := func(name string) string { return field(path, name) }
	if n := g.count(); n < 0 || n > maxDevices {
		errs.Add(at("count"), "%d is out of range: 0 to %d", n, maxDevices)
	}
	checkClass(g.Class, at("class"), errs)
	checkModel(g.Model, at("model"), errs)
	for name := range g.Attributes {
		if !factName.MatchString(name) {
			errs.Add(at("attributes"), "%q is no attribute name: a C identifier of at most 32 characters", name)
		}
	}
	for name := range g.Capacities {
		if !factName.MatchString(name) {
			errs.Add(at("capacities"), "%q is no capacity name: a C identifier of at most 32 characters", name)
		}
	}
	if n := len(g.Attributes) + len(g.Capacities); n > maxFacts-6 {
		errs.Add(path, "%d attributes and capacities are too many: at most %d", n, maxFacts-6)
	}
	for i, h := range g.Hooks {
		if h != "prepare" && h != "release" {
			errs.Add(fmt.Sprintf("%s[%d]", at("hooks"), i), "%q is no hook: prepare or release", h)
		}
	}
	if g.Links != nil {
		g.Links.check(at("links"), g.count(), errs)
	}
	if g.Partitions != nil {
		g.Partitions.check(at("partitions"), errs)
	}
	g.Reset.check(at("reset"), errs)
	if g.Release != nil && g.Release.Edits != nil {
		errs.Add(at("release.edits"), "only prepare gives edits")
	}
}

func checkClass(class, path string, errs *sdk.FieldErrors) {
	if class != "" && !slices.Contains(classes, class) {
		errs.Add(path, "%q is no class of this backend: %s", class, strings.Join(classes, ", "))
	}
}

func checkModel(model, path string, errs *sdk.FieldErrors) {
	if len(model) > 64 {
		errs.Add(path, "%d bytes are too long: at most 64", len(model))
	}
}

func (l *links) check(path string, count int, errs *sdk.FieldErrors) {
	if _, ok := linkKind(l.kind()); !ok {
		errs.Add(field(path, "kind"), "%q is no kind of link: nvlink, nvswitch, xgmi, pcie_switch, pcie_host_bridge, same_numa, cross_numa, other ...", l.Kind)
	}
	switch l.Topology {
	case "none", "ring":
	case "all-to-all":
		if count-1 > maxLinks {
			errs.Add(field(path, "topology"), "all-to-all among %d devices is too much: at most %d links for a device", count, maxLinks)
		}
	case "hive":
		if l.Size < 2 || l.Size-1 > maxLinks {
			errs.Add(field(path, "size"), "a hive has 2 to %d devices, not %d", maxLinks+1, l.Size)
		}
	default:
		errs.Add(field(path, "topology"), "%q is no topology: none, all-to-all, ring or hive", l.Topology)
	}
	if l.Size != 0 && l.Topology != "hive" {
		errs.Add(field(path, "size"), "only a hive has a size")
	}
}

func (p *partitions) check(path string, errs *sdk.FieldErrors) {
	if p.Count < 1 || p.Count > maxPartitions {
		errs.Add(field(path, "count"), "%d is out of range: 1 to %d", p.Count, maxPartitions)
	}
	checkClass(p.Class, field(path, "class"), errs)
	checkModel(p.Model, field(path, "model"), errs)
}

func (r *resetBehaviour) check(path string, errs *sdk.FieldErrors) {
	if r == nil {
		return
	}
	results := []string{resetRecovered, resetFailed, resetError, resetMissing}
	if r.Result != "" && !slices.Contains(results, r.Result) {
		errs.Add(field(path, "result"), "%q is no result: %s", r.Result, strings.Join(results, ", "))
	}
}

func (g *group) count() int {
	if g.Count == nil {
		return 1
	}
	return *g.Count
}

func (l *links) kind() string {
	if l.Kind == "" {
		return "nvlink"
	}
	return l.Kind
}

// field appends a name to a path.
func field(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
