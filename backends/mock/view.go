package mock

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
)

// view is what holds at one time: the settings, the scenario, and what resets
// have changed. It is a copy; nobody else changes it.
type view struct {
	playing
	cfg      *config
	scenario *scenario
	cleared  map[string]fault
	problem  string
	version  int

	// What specs found out on its first use; without plugged devices, the settings' own.
	all  []*spec
	byID map[string]*spec
}

// rendered tells views apart that lead to different inventories.
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

// specs are the devices of the settings and those that are plugged; a plugged
// one under an ID that is there already is left out.
func (v *view) specs() []*spec {
	if v.byID != nil {
		return v.all
	}
	v.all, v.byID = v.cfg.specs, v.cfg.byID
	if len(v.plugged) == 0 {
		return v.all
	}
	v.all, v.byID = slices.Clone(v.all), maps.Clone(v.byID)
	for _, s := range v.plugged {
		id := s.device.GetId()
		if v.byID[id] == nil {
			v.byID[id] = s
			v.all = append(v.all, s)
		}
	}
	return v.all
}

// find is the device with this ID, or nil.
func (v *view) find(id string) *spec {
	v.specs()
	return v.byID[id]
}

// entry is what the scenario says of a device.
func (v *view) entry(s *spec) entry {
	if len(v.Devices) == 0 {
		return entry{}
	}
	v.specs()
	return v.lookup(s, v.byID)
}

// devices are the inventory.
func (v *view) devices() []*sdk.Device {
	out, gone := make([]*sdk.Device, 0, len(v.specs())), map[string]bool{}
	for _, s := range v.specs() {
		e := v.entry(s)
		if e.Unplugged {
			gone[s.device.GetId()] = true
			continue
		}
		out = append(out, v.device(s, e))
	}
	if len(gone) > 0 { // before that, links lead only to what is listed
		for i, d := range out {
			out[i] = withoutLinks(d, func(id string) bool { return gone[id] })
		}
	}
	if v.garbage {
		out = v.spoil(out)
	}
	return out
}

// device is one of the inventory, but for links to those that are gone.
func (v *view) device(s *spec, e entry) *sdk.Device {
	d := s.device
	if e.Fault != nil || e.Recovered || e.Unknown || e.Attributes != nil {
		d = proto.CloneOf(d)
		d.Health = v.health(s, e)
		for name, a := range e.Attributes {
			d.Attributes[name] = a.wire
		}
	}
	return d
}

// withoutLinks is the device without its links to those that are gone.
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
		return sdk.Fault(e.Fault.Code, r, e.Fault.Message)
	case e.Recovered:
		return sdk.Recovered()
	case e.Unknown:
		return sdk.Unknown("the scenario says so")
	}
	return sdk.Healthy()
}

// spoil adds the garbage.
func (v *view) spoil(devices []*sdk.Device) []*sdk.Device {
	kinds := v.Garbage.Kinds
	if len(kinds) == 0 {
		for _, k := range slices.Sorted(maps.Keys(litter)) {
			if !heavy[k] {
				kinds = append(kinds, k)
			}
		}
	}
	devices = slices.Clone(devices)
	for _, k := range kinds {
		devices = litter[k](devices)
	}
	return devices
}

// problems are what the inventory tells the operator.
func (v *view) problems() []string {
	out := slices.Clone(v.Problems)
	if v.problem != "" {
		out = append(out, v.problem)
	}
	v.specs()
	for _, s := range v.plugged {
		if v.byID[s.device.GetId()] != s {
			out = append(out, fmt.Sprintf("scenario: %s cannot be plugged, it is there already", s.device.GetId()))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v.Devices)) {
		if !v.names(key) {
			out = append(out, fmt.Sprintf("scenario: no device is named %q", key))
		}
	}
	return out
}

// names reports whether a key of the scenario means any device.
func (v *view) names(key string) bool {
	if v.find(key) != nil {
		return true
	}
	for _, s := range v.specs() {
		if ok, _ := path.Match(key, s.device.GetId()); ok || key == s.facts.Parent {
			return true
		}
	}
	return false
}
