package deviceplugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
)

// maxList is how many bytes a list may have on the wire. Kubelet receives with
// gRPC's default limit, 4 MiB; a list over it breaks the stream.
const maxList = 4<<20 - 4<<10

// view is one resource as kubelet is told of it: made once, never changed.
type view struct {
	name         string
	injection    config.Injection
	registration config.Registration
	// replicas and maxReplicas are the resource's; maxReplicas 0 is no limit.
	replicas, maxReplicas int
	// list is sorted by ID, and what goes on the wire.
	list               []*pluginapi.Device
	units              map[string]*unit
	healthy, unhealthy int
	preStart           bool
	// allocation is the resource's, topology what chooses by it.
	allocation config.Allocation
	topology   *topology.Topology
	notes      []string
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
		units: make(map[string]*unit, len(r.Units)),
	}
	if r.Replicas <= 1 {
		v.maxReplicas = 0
	}
	namer := namer{needed: r.Injection != config.InjectPlain, names: names, known: map[inventory.Key]named{}}
	for _, in := range r.Units {
		if _, twice := v.units[in.ID]; twice {
			v.notes = append(v.notes, fmt.Sprintf("the ID %s is there twice; only the first is advertised", in.ID))
			continue
		}
		v.units[in.ID] = newUnit(in, &namer)
	}
	v.fill()
	v.prepare(before)
	v.notes = append(v.notes, namer.notes...)
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
	ids := make([]string, 0, len(v.units))
	for id := range v.units {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	size := 0
	for i, id := range ids {
		u := v.units[id]
		d := wireDevice(u)
		n := proto.Size(d)
		size += protowire.SizeTag(1) + protowire.SizeVarint(uint64(n)) + n
		if size > maxList {
			v.notes = append(v.notes, fmt.Sprintf(
				"%d of %d units are not advertised: kubelet takes a list of 4 MiB at most; lower replicas or split the resource",
				len(ids)-i, len(ids)))
			break
		}
		v.list = append(v.list, d)
		v.preStart = v.preStart || u.Device.Hooks.Prepare
		if u.healthy {
			v.healthy++
		} else {
			v.unhealthy++
		}
	}
}

func wireDevice(u *unit) *pluginapi.Device {
	d := &pluginapi.Device{ID: u.ID, Health: pluginapi.Unhealthy}
	if u.healthy {
		d.Health = pluginapi.Healthy
	}
	// No topology at all if it is unknown: kubelet takes an empty one as a hint.
	if len(u.Device.NUMANodes) > 0 {
		d.Topology = &pluginapi.TopologyInfo{}
		for _, node := range u.Device.NUMANodes {
			d.Topology.Nodes = append(d.Topology.Nodes, &pluginapi.NUMANode{ID: int64(node)})
		}
	}
	return d
}

// emptied is the view of a resource that left the table.
func (v *view) emptied() *view {
	emptied := &view{
		name: v.name, injection: v.injection, registration: v.registration, allocation: v.allocation,
		replicas: v.replicas, maxReplicas: v.maxReplicas, units: map[string]*unit{},
		notes: []string{"the resource is no longer configured; it stays registered, without devices, until the agent ends"},
	}
	emptied.prepare(v)
	return emptied
}

// sameList tells whether kubelet would see no difference.
func sameList(a, b []*pluginapi.Device) bool {
	return slices.EqualFunc(a, b, func(a, b *pluginapi.Device) bool {
		return a.GetID() == b.GetID() && a.GetHealth() == b.GetHealth() &&
			slices.EqualFunc(a.GetTopology().GetNodes(), b.GetTopology().GetNodes(),
				func(a, b *pluginapi.NUMANode) bool { return a.GetID() == b.GetID() })
	})
}

// takesAway tells whether a healthy device of the old list is not healthy in the
// new one. Both are sorted by ID.
func takesAway(before, after []*pluginapi.Device) bool {
	i := 0
	for _, old := range before {
		for i < len(after) && after[i].GetID() < old.GetID() {
			i++
		}
		if old.GetHealth() != pluginapi.Healthy {
			continue
		}
		if i == len(after) || after[i].GetID() != old.GetID() || after[i].GetHealth() != pluginapi.Healthy {
			return true
		}
	}
	return false
}

// namer looks up each device's CDI name once, however many replicas it has.
type namer struct {
	needed bool
	names  Names
	known  map[inventory.Key]named
	notes  []string
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
		if found.err != nil {
			n.note(key, found.err)
		}
	}
	return found.name, found.err
}

// maxNotes bounds the notes on single devices.
const maxNotes = 10

func (n *namer) note(key inventory.Key, err error) {
	switch len(n.notes) {
	case maxNotes:
	case maxNotes - 1:
		n.notes = append(n.notes, "more devices have no CDI name and are advertised as unhealthy")
	default:
		n.notes = append(n.notes, fmt.Sprintf("device %s is advertised as unhealthy: it has no CDI name: %v", key, err))
	}
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
