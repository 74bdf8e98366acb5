package deviceplugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
)

// view is one resource with the list for kubelet. It never changes.
type view struct {
	name         string
	injection    config.Injection
	registration config.Registration
	// annotations is the domain of annotations with CDI names.
	annotations string
	// replicas and maxReplicas are the resource's; maxReplicas 0 is no limit.
	replicas, maxReplicas int
	// units are sorted by ID, and no two have the same.
	units []*unit
	// list has as many of the first units as kubelet accepts. healthy and unhealthy count them;
	// preStart reports whether the device of one of them has a Prepare hook.
	list               *pluginapi.ListAndWatchResponse
	healthy, unhealthy int
	preStart           bool
	// allocation has the resource's settings, by which topology chooses units.
	allocation config.Allocation
	topology   *topology.Topology
	notes      []string
	// unlisted reports that the resource left the table.
	unlisted bool
	// withheld reports that no unit is advertised, and that the units are those that containers
	// have.
	withheld bool
}

// unit is one entry of the list, with what an allocation of it needs.
type unit struct {
	Unit
	healthy bool
	// resetting: the unit is only unhealthy because its device is reset after use, for which Take waits.
	resetting bool
	// why is the reason why the unit is unhealthy, as a clause for an error.
	why string
	// cdi is the qualified name, "" if the injection does not need one.
	cdi string
}

// newView returns the view of a resource; before is the previous one, or nil.
func newView(r *resource.Resource, names Names, before *view) *view {
	v := &view{
		name: r.Name, injection: r.Injection, registration: r.Registration, annotations: r.AnnotationPrefix, allocation: r.Allocation,
		replicas: max(1, r.Replicas),
	}
	if r.Replicas > 1 && r.MaxReplicasPerContainer != nil {
		v.maxReplicas = *r.MaxReplicasPerContainer
	}
	units := Units(r)
	all := make([]unit, len(units)) // one allocation for thousands
	v.units = make([]*unit, len(units))
	for i, u := range units {
		all[i] = newUnit(u, r.Injection, names)
		v.units[i] = &all[i]
	}
	slices.SortStableFunc(v.units, func(a, b *unit) int { return strings.Compare(a.ID, b.ID) })
	v.units = slices.CompactFunc(v.units, func(a, b *unit) bool {
		if a.ID != b.ID {
			return false
		}
		v.notes = append(v.notes, fmt.Sprintf("the ID %s is there twice; only the first is advertised", a.ID))
		return true
	})
	v.list = newList(v.units)
	if v.withheld = r.Withheld; v.withheld {
		v.list = newList(nil)
	}
	listed := v.units[:len(v.list.GetDevices())]
	if left := len(v.units) - len(listed); left > 0 && !v.withheld {
		v.notes = append(v.notes, fmt.Sprintf(
			"%d of %d units are not advertised: kubelet takes a list of 4 MiB at most; lower replicas or split the resource",
			left, len(v.units)))
	}
	v.preStart = slices.ContainsFunc(v.units, func(u *unit) bool { return u.Device.Hooks.Prepare })
	for _, u := range listed {
		if u.healthy {
			v.healthy++
		} else {
			v.unhealthy++
		}
	}
	v.prepare(before)
	v.notes = slices.Concat(v.notes, plainNotes(r), joinNotes(r), longIDNotes(r), preparedNotes(r))
	return v
}

// newUnit returns the entry of a unit. round.Unusable has made devices without a CDI name
// unhealthy.
func newUnit(in Unit, injection config.Injection, names Names) unit {
	u := unit{Unit: in, healthy: in.Verdict.Healthy, resetting: lifecycle.AwaitsReset(in.Verdict)}
	switch {
	case u.healthy:
	case len(in.Verdict.Faults) > 0:
		f := in.Verdict.Faults[0]
		u.why = fmt.Sprintf("it is unhealthy (%s: %s)", f.Code, f.Message)
	default:
		u.why = "it is unhealthy"
	}
	if injection == config.InjectPlain {
		return u
	}
	name, err := "", errNoNames
	if names != nil {
		name, err = names.Qualified(in.Device.Key)
	}
	if err != nil && (u.healthy || u.resetting) {
		u.healthy, u.resetting, u.why = false, false, fmt.Sprintf("it has no CDI name: %v", err)
	}
	u.cdi = name
	return u
}

var errNoNames = errors.New("no CDI names were published")

// unit returns the unit with that ID.
func (v *view) unit(id string) (*unit, bool) {
	i, ok := slices.BinarySearchFunc(v.units, id, func(u *unit, id string) int { return strings.Compare(u.ID, id) })
	if !ok {
		return nil, false
	}
	return v.units[i], true
}

// emptied returns the view of a resource that is no longer in the table.
func (v *view) emptied() *view {
	emptied := &view{
		name: v.name, injection: v.injection, registration: v.registration, annotations: v.annotations, allocation: v.allocation,
		replicas: v.replicas, maxReplicas: v.maxReplicas, list: newList(nil), unlisted: true,
	}
	emptied.prepare(v)
	return emptied
}

// joinNotes reports devices that no container can have together.
func joinNotes(r *resource.Resource) []string {
	devices := make([]*inventory.Device, len(r.Devices))
	for i, d := range r.Devices {
		devices[i] = d.Device
	}
	notes := inventory.DisagreeOnEnv(devices)
	for i, note := range notes {
		notes[i] = note + "; a container that asks for both is refused: put them into different resources, by backend, class or selector"
	}
	return notes
}

// plainNotes reports edits that an answer to Allocate without CDI cannot express.
func plainNotes(r *resource.Resource) []string {
	if r.Injection != config.InjectPlain {
		return nil
	}
	var lost []string
	for _, d := range r.Devices {
		if e := d.Edits; len(e.Hooks) > 0 || len(e.AdditionalGIDs) > 0 {
			lost = append(lost, d.ID)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"%d devices (%s) ask for OCI hooks or additional groups, which injection %q cannot give: their containers do not get them; set injection: auto",
		len(lost), strings.Join(lost[:min(3, len(lost))], ", "), r.Injection)}
}
