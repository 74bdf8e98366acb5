package mock

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
)

// view is the state at one time: the settings, the scenario, and the changes by resets. It is a
// copy that nothing else changes.
type view struct {
	playing
	cfg      *config
	scenario *scenario
	cleared  map[string]fault
	problem  string
	version  int
	// made are the holders of the partitions that Prepare made.
	made map[string]string

	// Devices of the settings and those that are plugged.
	specs []*spec
	byID  map[string]*spec
}

func newView(cfg *config, p *player, now playing) *view {
	v := &view{playing: now, cfg: cfg, scenario: p.scenario, specs: cfg.specs, byID: cfg.byID}
	if len(v.scenario.plugged) > 0 {
		v.specs, v.byID = slices.Concat(v.specs, v.scenario.plugged), maps.Clone(v.byID)
		for _, s := range v.scenario.plugged {
			v.byID[s.device.GetId()] = s
		}
	}
	return v
}

// rendered distinguishes views that lead to different inventories.
type rendered struct {
	cfg      *config
	scenario *scenario
	step     int
	garbage  bool
	version  int
}

func (v *view) rendered() rendered {
	return rendered{cfg: v.cfg, scenario: v.scenario, step: v.step, garbage: v.garbage, version: v.version}
}

// entry returns the scenario's entry of a device: under its own ID, under that of its parent if
// the parent is not listed itself, or under the most specific matching pattern, which is the
// longest.
func (v *view) entry(s *spec) entry {
	id, parent := s.device.GetId(), s.device.GetParentId()
	if e, ok := v.entries[id]; ok {
		return e
	}
	if parent != "" {
		e, ok := v.entries[parent]
		if ok && v.byID[parent] == nil {
			return e
		}
		if ok && e.Unplugged { // nothing is left of a device that is gone
			return entry{Unplugged: true}
		}
	}
	best := ""
	for key := range v.entries {
		ok, err := path.Match(key, id)
		if err == nil && ok && (len(key) > len(best) || len(key) == len(best) && key < best) {
			best = key
		}
	}
	return v.entries[best]
}

// inventory returns the inventory.
func (v *view) inventory() sdk.Inventory {
	devices, unread := v.devices()
	i := sdk.Inventory{Devices: devices, Unread: unread, Problems: v.problems(), Immutable: true}
	if v.scenario.Unread == "" {
		i.CounterSets = v.counterSets()
	}
	return i
}

// devices returns the devices, and those that cannot be looked at.
func (v *view) devices() (out []*sdk.Device, unread []*sdk.Unread) {
	if v.scenario.Unread != "" {
		return nil, []*sdk.Unread{{Reason: v.scenario.Unread}}
	}
	out = make([]*sdk.Device, 0, len(v.specs))
	gone := map[string]bool{}
	for _, s := range v.specs {
		e := v.entry(s)
		if e.Unplugged || e.Unread != "" {
			gone[s.device.GetId()] = true
		}
		switch {
		case e.Unplugged:
		case e.Unread != "":
			unread = append(unread, &sdk.Unread{DeviceId: s.device.GetId(), Reason: e.Unread})
		default:
			out = append(out, v.device(s, e))
		}
	}
	if len(gone) > 0 { // before that, links lead only to what is listed
		for i, d := range out {
			out[i] = withoutLinks(d, func(id string) bool { return gone[id] })
		}
	}
	if v.garbage {
		out = v.scenario.Garbage.spoil(out)
	}
	return out, unread
}

// device returns a device of the inventory, except links to devices that are not listed.
func (v *view) device(s *spec, e entry) *sdk.Device {
	d := v.partition(s, e)
	if e.Fault != nil || e.Recovered || e.Attributes != nil {
		d = proto.CloneOf(d)
		d.Health = v.health(s, e)
		for name, a := range e.Attributes {
			d.Attributes[name] = a.wire
		}
	}
	return d
}

// withoutLinks returns the device without its links to those that are gone.
func withoutLinks(d *sdk.Device, gone func(id string) bool) *sdk.Device {
	to := func(l *sdk.Link) bool { return gone(l.GetPeerId()) }
	if slices.ContainsFunc(d.GetLinks(), to) {
		d = proto.CloneOf(d)
		d.Links = slices.DeleteFunc(d.Links, to)
	}
	return d
}

func (v *view) health(s *spec, e entry) *sdk.Health {
	switch {
	case e.Fault != nil && v.cleared[s.device.GetId()] != *e.Fault:
		r, _ := recovery(e.Fault.Recovery)
		health := sdk.Fault(e.Fault.Code, r, e.Fault.Message)
		health.Reach, _ = reach(e.Fault.Reach)
		return health
	case e.Recovered:
		return sdk.Recovered()
	}
	return sdk.Healthy()
}

// problems returns the problems of the inventory.
func (v *view) problems() []string {
	out := slices.Clone(v.scenario.Problems)
	if v.problem != "" {
		out = append(out, v.problem)
	}
	for _, key := range slices.Sorted(maps.Keys(v.entries)) {
		if !v.names(key) {
			out = append(out, fmt.Sprintf("scenario: no device is named %q", key))
		}
	}
	return out
}

// names reports whether a key of the scenario matches any device.
func (v *view) names(key string) bool {
	if v.byID[key] != nil {
		return true
	}
	return slices.ContainsFunc(v.specs, func(s *spec) bool {
		ok, _ := path.Match(key, s.device.GetId())
		return ok || key == s.device.GetParentId()
	})
}
