package deviceplugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
)

// view is one resource as kubelet is told of it: made once, never changed.
type view struct {
	name         string
	injection    config.Injection
	registration config.Registration
	// replicas and maxReplicas are the resource's; maxReplicas 0 is no limit.
	replicas, maxReplicas int
	// list is what goes on the wire.
	list list
	// all has the units in the order of the resource's, those that it has twice once;
	// places says where an ID is among them, and listed where in the list: -1 for
	// nowhere. Views of the same units share both.
	all    []*unit
	places map[string]int32
	listed []int32
	// source are the resource's units, and names what names them: what the next view may
	// be made from.
	source             []resource.Unit
	names              Names
	healthy, unhealthy int
	preStart           bool
	// allocation is the resource's, topology what chooses by it.
	allocation config.Allocation
	topology   *topology.Topology
	notes      []string
	// unlisted: the resource left the table.
	unlisted bool
}

// unit is one entry of the list, with what an allocation of it needs.
type unit struct {
	resource.Unit
	healthy bool
	// why is what is wrong with an unhealthy one, as a clause.
	why string
	// cdi is the qualified name, "" if the injection does not need one.
	cdi string
}

// newView is the view of a resource; before is the one before it, or nil.
func newView(r *resource.Resource, names Names, before *view) *view {
	v := &view{
		name: r.Name, injection: r.Injection, registration: r.Registration, allocation: r.Allocation,
		replicas: r.Replicas, maxReplicas: r.MaxReplicasPerContainer,
		source: r.Units, names: names,
	}
	if r.Replicas <= 1 {
		v.maxReplicas = 0
	}
	if v.amend(before) {
		return v
	}
	v.places, v.all = make(map[string]int32, len(r.Units)), make([]*unit, 0, len(r.Units))
	namer := namer{needed: r.Injection != config.InjectPlain, names: names, known: map[inventory.Key]named{}}
	for _, in := range r.Units {
		if _, twice := v.places[in.ID]; twice {
			v.notes = append(v.notes, fmt.Sprintf("the ID %s is there twice; only the first is advertised", in.ID))
			continue
		}
		v.places[in.ID] = int32(len(v.all)) //nolint:gosec // bounded by the devices and replicas of a node
		v.all = append(v.all, newUnit(in, &namer))
	}
	v.fill()
	v.prepare(before)
	v.notes = append(v.notes, plainNotes(r)...)
	v.notes = append(v.notes, joinNotes(r)...)
	return v
}

func newUnit(in resource.Unit, namer *namer) *unit {
	u := &unit{Unit: in, healthy: in.Verdict.Healthy}
	if !u.healthy {
		u.why = "it is unhealthy"
		if len(in.Verdict.Faults) > 0 {
			f := in.Verdict.Faults[0]
			u.why = fmt.Sprintf("it is unhealthy (%s: %s)", f.Code, f.Message)
		}
	}
	var err error
	if u.cdi, err = namer.name(in.Device.Key); err != nil && u.healthy {
		u.healthy, u.why = false, fmt.Sprintf("it has no CDI name: %v", err)
	}
	return u
}

// fill makes the list and counts from the units.
func (v *view) fill() {
	order := make([]int32, len(v.all))
	for i := range order {
		order[i] = int32(i) //nolint:gosec // bounded by the units
	}
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(v.all[a].ID, v.all[b].ID) })
	sorted := make([]*unit, len(order))
	for i, place := range order {
		sorted[i] = v.all[place]
	}
	v.list = newList(sorted)
	if left := len(v.all) - len(v.list.units); left > 0 {
		v.notes = append(v.notes, fmt.Sprintf(
			"%d of %d units are not advertised: kubelet takes a list of 4 MiB at most; lower replicas or split the resource",
			left, len(v.all)))
	}
	v.listed = make([]int32, len(v.all))
	for i, place := range order {
		if i >= len(v.list.units) {
			v.listed[place] = -1
			continue
		}
		v.listed[place] = int32(i) //nolint:gosec // bounded by the units
		u := v.all[place]
		v.preStart = v.preStart || u.Device.Hooks.Prepare
		if u.healthy {
			v.healthy++
		} else {
			v.unhealthy++
		}
	}
}

// unit finds one by its ID.
func (v *view) unit(id string) (*unit, bool) {
	place, ok := v.places[id]
	if !ok {
		return nil, false
	}
	return v.all[place], true
}

// left are the units that are not in the next view.
func (v *view) left(next *view) []*unit {
	if len(v.listed) > 0 && len(next.listed) > 0 && &v.listed[0] == &next.listed[0] {
		return nil // they share their units
	}
	var left []*unit
	for _, u := range v.all {
		if _, stays := next.places[u.ID]; !stays {
			left = append(left, u)
		}
	}
	return left
}

// emptied is the view of a resource that left the table.
func (v *view) emptied() *view {
	emptied := &view{
		name: v.name, injection: v.injection, registration: v.registration, allocation: v.allocation,
		replicas: v.replicas, maxReplicas: v.maxReplicas, places: map[string]int32{}, unlisted: true,
	}
	emptied.prepare(v)
	return emptied
}

// namer looks up each device's CDI name once, however many replicas it has.
type namer struct {
	needed bool
	names  Names
	known  map[inventory.Key]named
}

type named struct {
	name string
	err  error
}

func (n *namer) name(key inventory.Key) (string, error) {
	if !n.needed {
		return "", nil
	}
	found, ok := n.known[key]
	if !ok {
		if n.names == nil {
			found.err = errors.New("no CDI names were published")
		} else {
			found.name, found.err = n.names.Qualified(key)
		}
		n.known[key] = found
	}
	return found.name, found.err
}

// joinNotes tells of devices that no container can have together.
func joinNotes(r *resource.Resource) []string {
	devices := make([]*inventory.Device, 0, len(r.Units)/max(1, r.Replicas))
	for _, u := range r.Units {
		if n := len(devices); n == 0 || devices[n-1] != u.Device {
			devices = append(devices, u.Device)
		}
	}
	notes := inventory.DisagreeOnEnv(devices)
	for i, note := range notes {
		notes[i] = note + "; a container that asks for both is refused: put them into different resources, by backend, class or selector"
	}
	return notes
}

// plainNotes tells of edits that device nodes, mounts and env cannot express.
func plainNotes(r *resource.Resource) []string {
	if r.Injection != config.InjectPlain {
		return nil
	}
	var lost []string
	for _, u := range r.Units {
		if e := u.Device.Edits; len(e.Hooks) > 0 || len(e.AdditionalGIDs) > 0 {
			lost = append(lost, u.Device.ID)
		}
	}
	lost = slices.Compact(lost)
	if len(lost) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"%d devices (%s) ask for OCI hooks or additional groups, which injection %q cannot give: their containers go without; set injection: cdi",
		len(lost), strings.Join(lost[:min(3, len(lost))], ", "), r.Injection)}
}
