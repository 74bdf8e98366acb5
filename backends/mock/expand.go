package mock

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Defaults of a group.
const (
	defaultClass     = "gpu"
	defaultModel     = "Mock M1"
	defaultID        = "mock-{{.Index}}"
	defaultPluggedID = "mock-plugged-{{.Index}}"
)

// spec is one device as the settings have it: healthy, plugged in. It never
// changes; a scenario is applied to a copy of the device.
type spec struct {
	device *sdk.Device
	group  *group
	facts  facts
	slots  *slots // nil for a device that is no potential partition
}

// expansion turns groups into devices.
type expansion struct {
	errs  *sdk.FieldErrors
	seen  map[string]bool
	specs []*spec
}

// expand makes the devices of all groups. The path is that of the list in the
// settings, "" if there is one group at the top level.
func expand(groups []group, path, defaultID string, errs *sdk.FieldErrors) []*spec {
	x := &expansion{errs: errs, seen: map[string]bool{}}
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
		if len(x.specs)+g.size() > maxDevices {
			errs.Add(path, "too many devices: at most %d in all, partitions included", maxDevices)
			return nil
		}
		x.group(g, at, defaultID, index)
		index += g.count()
	}
	return x.specs
}

// group adds the devices of one group; first is the index of its first device.
func (x *expansion) group(g *group, at, defaultID string, first int) {
	wholes := make([]*spec, 0, g.count())
	for i := range g.count() {
		f := facts{index: first + i, groupIndex: i}
		r := f.renderer()
		f.id = r.text(or(g.ID, defaultID))
		if r.err != nil {
			x.check(field(at, "id"), r.err)
			return
		}
		whole := x.device(g, f, 1, 1, at)
		wholes = append(wholes, whole)
		if p := g.Partitions; p == nil || p.ListParent {
			x.specs = append(x.specs, whole)
		}
		switch {
		case g.Partitions == nil:
		case len(g.Partitions.Profiles) > 0:
			x.potential(g, whole, at)
		default:
			x.partition(g, whole, at)
		}
	}
	if g.Links != nil && (g.Partitions == nil || g.Partitions.ListParent) { // a link to what is not listed leads nowhere
		link(wholes, g.Links)
	}
}

// partition adds the partitions of one device.
func (x *expansion) partition(g *group, whole *spec, at string) {
	parent := whole.device.GetId()
	whole.device.ResetGroup = parent
	var parts []*spec
	for i := range g.Partitions.Count {
		f := whole.facts
		f.id = fmt.Sprintf("%s-p%d", parent, i)
		s := x.device(g, f, 1, g.Partitions.Count, at)
		s.device.ParentId, s.device.ResetGroup = parent, parent
		parts = append(parts, s)
	}
	link(parts, &links{Topology: "all-to-all", Kind: "same_device"})
	x.specs = append(x.specs, parts...)
}

// device makes one device, which has so many parts of the capacities of the whole.
func (x *expansion) device(g *group, f facts, parts, of int, at string) *spec {
	if x.seen[f.id] {
		x.check(field(at, "id"), fmt.Errorf("%q is the ID of two devices: use {{.Index}} or {{.Number}}", f.id))
	}
	x.seen[f.id] = true
	d := &sdk.Device{
		Id: f.id, Class: or(g.Class, defaultClass), Health: sdk.Healthy(),
		Attributes: map[string]*sdk.Attribute{
			"model": sdk.String(or(g.Model, defaultModel)), "uuid": sdk.String(uuid(f.id)), "index": sdk.Int(int64(f.index)),
		},
		Capacities:  map[string]int64{},
		PreparedFor: g.Holders,
	}
	if node := g.NUMANodes.node(f.groupIndex, g.count()); node >= 0 {
		d.NumaNodes = []uint32{uint32(node)} //nolint:gosec // checked on decoding
	}
	for name, amount := range g.capacities() {
		d.Capacities[name] = amount / int64(of) * int64(parts)
	}
	for name, v := range g.Attributes {
		d.Attributes[name] = v.wire
	}
	for _, h := range g.Hooks {
		d.Hooks = append(d.Hooks, backendv1.Hook(backendv1.Hook_value["HOOK_"+strings.ToUpper(h)]))
	}
	d.SlowToPrepare = g.Prepare != nil && g.Prepare.Slow
	g.describeShares(d)
	e := g.Edits
	if e == nil {
		e = &defaultEdits
	}
	s := &spec{device: d, group: g, facts: f}
	var err error
	d.Edits, err = e.fill(f)
	x.check(field(at, "edits"), err)
	if g.AdminEdits != nil {
		d.AdminEdits, err = g.AdminEdits.fill(f)
		x.check(field(at, "adminEdits"), err)
	}
	if g.Prepare != nil && g.Prepare.Edits != nil {
		f.parameters, f.amounts = &parameters{}, amountsOf(g, nil)
		_, err = g.Prepare.Edits.fill(f)
		x.check(field(at, "prepare.edits"), err)
	}
	return s
}

// check adds an error, once for a field: thousands of devices share it.
func (x *expansion) check(field string, err error) {
	if err != nil && !slices.ContainsFunc(*x.errs, func(e sdk.FieldError) bool { return e.Field == field }) {
		x.errs.Add(field, "%s", err)
	}
}

// uuid is the same for the same ID, always.
func uuid(id string) string {
	h := sha256.Sum256([]byte(id))
	h[6] = h[6]&0x0f | 0x80 // version 8: made by a rule of our own (RFC 9562)
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
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

// neighbours returns the indices that device i of n is linked to, in order.
func neighbours(i, n int, l *links) []int {
	from, to := 0, n
	switch l.Topology {
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
