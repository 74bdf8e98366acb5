package mock

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Defaults of a group.
const (
	defaultClass     = "gpu"
	defaultModel     = "Mock M1"
	defaultID        = "mock-{{.Index}}"
	defaultPluggedID = "mock-plugged-{{.Index}}"
	defaultPartition = "{{.Parent}}-p{{.Partition}}"
)

// spec is one device as the settings have it: healthy, plugged in. It never
// changes; a scenario is applied to a copy of the device.
type spec struct {
	device    *sdk.Device
	group     *group
	facts     facts
	parent    bool     // has partitions
	create    []string // host files to create
	telemetry bool
}

var (
	faultCode = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)
	deviceID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$`)
	pciBusID  = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
)

// expansion turns groups into devices.
type expansion struct {
	seed  uint64
	cache map[string]*template.Template
	errs  *sdk.FieldErrors
	seen  map[string]bool
	specs []*spec
}

// expand makes the devices of all groups. The path is that of the list in the
// settings, "" if there is one group at the top level.
func expand(groups []group, path, defaultID string, seed uint64, errs *sdk.FieldErrors) []*spec {
	x := &expansion{seed: seed, cache: map[string]*template.Template{}, errs: errs, seen: map[string]bool{}}
	index := 0
	for i := range groups {
		g, at := &groups[i], path
		if path != "" {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		before := len(*errs)
		g.check(at, errs)
		if len(*errs) > before {
			continue
		}
		total := g.count()
		if g.Partitions != nil {
			total *= g.Partitions.Count + 1
		}
		if len(x.specs)+total > maxDevices+maxPartitions {
			errs.Add(path, "too many devices: at most %d in all", maxDevices)
			return nil
		}
		x.group(g, at, defaultID, index)
		index += g.count()
	}
	if len(x.specs) > maxDevices {
		errs.Add(path, "%d devices are too many: at most %d in all, partitions included", len(x.specs), maxDevices)
	}
	return x.specs
}

// group adds the devices of one group; first is the index of its first device.
func (x *expansion) group(g *group, at, defaultID string, first int) {
	count := g.count()
	wholes := make([]*spec, 0, count)
	for i := range count {
		f := facts{
			Index: first + i, Number: first + i + 1, GroupIndex: i, GroupNumber: i + 1,
			Class: or(g.Class, defaultClass), Model: or(g.Model, defaultModel),
			NUMANode: g.NUMANodes.node(i, count),
			UUID:     uuid(x.seed, first+i, 0),
		}
		whole := x.device(g, f, or(g.ID, defaultID), field(at, "id"), g.Memory, at)
		wholes = append(wholes, whole)
		if g.Partitions == nil {
			x.specs = append(x.specs, whole)
			continue
		}
		whole.parent = true
		if g.Partitions.ListParent {
			x.specs = append(x.specs, whole)
		}
		x.partition(g, whole, at)
	}
	if g.Links != nil {
		link(wholes, g.Links)
	}
	if g.Partitions == nil || g.Partitions.ListParent {
		return
	}
	for _, w := range wholes { // a link to what is not listed leads nowhere
		w.device.Links = nil
	}
}

// partition adds the partitions of one device.
func (x *expansion) partition(g *group, whole *spec, at string) {
	p := g.Partitions
	at = field(at, "partitions")
	memory := p.Memory
	if memory == 0 {
		memory = g.Memory / quantity(p.Count)
	}
	var parts []*spec
	for i := range p.Count {
		f := whole.facts
		f.Parent, f.Partition = whole.device.Id, i
		f.Class = or(p.Class, f.Class)
		f.Model = or(p.Model, f.Model)
		f.UUID = uuid(x.seed, f.Index, i+1)
		s := x.device(g, f, or(p.ID, defaultPartition), field(at, "id"), memory, at)
		s.device.ParentId = f.Parent
		if s.device.ResetGroup == "" {
			s.device.ResetGroup = f.Parent
		}
		parts = append(parts, s)
	}
	if whole.device.ResetGroup == "" {
		whole.device.ResetGroup = whole.device.Id
	}
	link(parts, &links{Topology: "all-to-all", Kind: "same_device"})
	x.specs = append(x.specs, parts...)
}

// device makes one device.
func (x *expansion) device(g *group, f facts, id, idAt string, memory quantity, at string) *spec {
	r := &renderer{facts: f, cache: x.cache, errs: x.errs}
	r.facts.PCIBusID = r.text(g.PCIBusID, field(at, "pciBusId"))
	if b := r.facts.PCIBusID; b != "" && !pciBusID.MatchString(b) {
		r.add(field(at, "pciBusId"), "%q is no PCI address: want one such as 0000:65:00.0", b)
	}
	r.facts.ID = r.text(id, idAt)
	switch id := r.facts.ID; {
	case !deviceID.MatchString(id) || strings.Contains(id, "::"):
		r.add(idAt, "%q is no device ID: at most 63 letters, digits and _ . : -, the first a letter or digit, and no ::", id)
		r.facts.ID = "invalid" // so that the edits are not to blame as well
	case x.seen[id]:
		r.add(idAt, "%q is the ID of two devices: use {{.Index}} or {{.Number}} in the template", id)
	default:
		x.seen[id] = true
	}
	r.facts.EnvName = envName(r.facts.ID)

	d := &sdk.Device{
		Id: r.facts.ID, Class: f.Class, Health: sdk.Healthy(),
		PciBusId:   r.facts.PCIBusID,
		ResetGroup: r.text(g.ResetGroup, field(at, "resetGroup")),
		Attributes: map[string]*sdk.Attribute{
			"model": sdk.String(f.Model), "uuid": sdk.String(f.UUID), "index": sdk.Int(int64(f.Index)),
		},
		Capacities:  map[string]int64{},
		PreparedFor: g.Holders,
	}
	if f.NUMANode >= 0 {
		d.NumaNodes = []uint32{uint32(f.NUMANode)} //nolint:gosec // checked on decoding
	}
	if memory > 0 {
		d.Capacities["memory"] = int64(memory)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Attributes)) {
		d.Attributes[name] = g.Attributes[name].wire
	}
	for name, q := range g.Capacities {
		d.Capacities[name] = int64(q)
	}
	for _, h := range g.Hooks {
		d.Hooks = append(d.Hooks, backendv1.Hook(backendv1.Hook_value["HOOK_"+strings.ToUpper(h)]))
	}
	e := g.Edits
	if e == nil {
		e = &defaultEdits
	}
	s := &spec{device: d, group: g, facts: r.facts, telemetry: g.Telemetry == nil || *g.Telemetry}
	d.Edits, s.create = e.fill(r, field(at, "edits"))
	if g.Prepare != nil && g.Prepare.Edits != nil {
		g.Prepare.Edits.fill(r, field(at, "prepare.edits"))
	}
	return s
}

// link connects devices with each other.
func link(specs []*spec, l *links) {
	kind, _ := linkKind(l.kind())
	n := len(specs)
	for i, s := range specs {
		for _, j := range neighbours(i, n, l) {
			s.device.Links = append(s.device.Links, &sdk.Link{
				PeerId: specs[j].device.Id, Kind: kind, Count: max(l.Count, 1), Distance: l.Distance,
			})
		}
	}
}

// neighbours are the indices that device i of n is linked to, in order.
func neighbours(i, n int, l *links) []int {
	from, to := 0, 0
	switch l.Topology {
	case "all-to-all":
		to = n
	case "hive":
		from = i / l.Size * l.Size
		to = min(from+l.Size, n)
	case "ring":
		around := []int{(i + n - 1) % n, (i + 1) % n}
		slices.Sort(around)
		return slices.DeleteFunc(slices.Compact(around), func(j int) bool { return j == i })
	}
	var out []int
	for j := from; j < to; j++ {
		if j != i {
			out = append(out, j)
		}
	}
	return out
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
