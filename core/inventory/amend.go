package inventory

import "bytes"

// amended is what a report leaves that differs from the one in force in few devices,
// byte by byte, as most do: only those are decoded and checked. ok is false if that
// is not all there is to it: devices come, go or change places, are left out or have
// defects, or are others' parents now.
func (src *source) amended(backend string, wire *Wire) (r report, ok bool) {
	before := src.backend
	if before == nil || src.wire == nil || src.defects || wire.Len() != src.wire.Len() || len(before.Devices) != wire.Len() ||
		!equalDescription(src.wireDesc, src.desc) {
		return report{}, false
	}
	var changed []int
	for i := range wire.devices {
		was, now := src.wire.devices[i].raw, wire.devices[i].raw
		if was == nil || now == nil {
			return report{}, false
		}
		if !bytes.Equal(was, now) {
			changed = append(changed, i)
		}
	}
	if len(changed) > wire.Len()/4+1 {
		return report{}, false // as much work as from the start
	}
	r = report{devices: append([]*Device(nil), before.Devices...), problems: own(wire.problems)}
	p := newParser(src.desc, src.policy)
	var listed map[string]*Device
	for _, i := range changed {
		decoded, err := wire.device(i)
		if err != nil {
			return report{}, false
		}
		d, remark, err := p.device(backend, decoded)
		if err != nil || remark != "" || d.ID != before.Devices[i].ID || d.Parent != before.Devices[i].Parent {
			return report{}, false
		}
		if len(decoded.GetLinks()) > 0 {
			if listed == nil {
				listed = byID(before.Devices)
			}
			listed[d.ID] = d
			if d.Links, remark = links(d, decoded.GetLinks(), listed); remark != "" {
				return report{}, false
			}
		}
		if d.shareWith(before.Devices[i]); !equalDevice(before.Devices[i], d) {
			r.devices[i] = d
		}
	}
	return r, true
}
