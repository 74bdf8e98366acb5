package inventory

import (
	"bytes"
	"slices"
)

// amended is what a report leaves that differs from the one in force in few devices,
// byte by byte, as most do: only those are decoded and checked, and what is wrong with
// others stays so, as it depends on none of what may change here. ok is false if that is
// not all there is to it: devices come, go, change places or have another parent, or one
// that differs has, or had, a defect.
func (src *source) amended(backend string, wire *Wire) (r report, ok bool) {
	before := src.backend
	if before == nil || src.wire == nil || wire.Len() != src.wire.Len() || !equalDescription(src.wireDesc, src.desc) ||
		len(before.Devices) == 0 && wire.Len() > 0 { // that may be garbage
		return report{}, false
	}
	places, ok := src.wire.differing(wire, wire.Len()/4+1) // more are as much work as from the start
	if !ok {
		return report{}, false
	}
	r = report{devices: slices.Clone(before.Devices), problems: src.defects.problems(wire), defects: src.defects, amended: true}
	p := newParser(src.desc, src.policy)
	listed := func(id string) *Device {
		if i := wire.find([]byte(id)); i >= 0 && src.defects.place(i) >= 0 {
			return r.devices[src.defects.place(i)]
		}
		return nil // or the second of that ID: then the link counts as a defect, and all is looked at
	}
	for _, i := range places {
		if !src.defects.sound(i) {
			return report{}, false
		}
		decoded, err := wire.device(i)
		if err != nil {
			return report{}, false
		}
		at := src.defects.place(i)
		was := before.Devices[at]
		d, remark, err := p.device(backend, decoded)
		if err != nil || remark != "" || d.ID != was.ID || d.Parent != was.Parent {
			return report{}, false
		}
		r.devices[at] = d
		if len(decoded.GetLinks()) > 0 {
			if d.Links, remark = links(d, wire.Len(), decoded.GetLinks(), listed); remark != "" {
				return report{}, false
			}
		}
		if d.shareWith(was); equalDevice(was, d) {
			r.devices[at] = was
			continue
		}
		r.changed = append(r.changed, at)
	}
	return r, true
}

// differing are the places at which another inventory of as many devices has other
// bytes; ok is false if they are more than limit, or not all of them are encoded. Blocks
// that are shared cost nothing.
func (w *Wire) differing(other *Wire, limit int) (places []int, ok bool) {
	for b, block := range w.blocks {
		now := other.blocks[b]
		if &block[0] == &now[0] {
			continue
		}
		for i := range block {
			if block[i].raw == nil || now[i].raw == nil {
				return nil, false
			}
			if !bytes.Equal(block[i].raw, now[i].raw) {
				places = append(places, b*blockSize+i)
			}
		}
		if len(places) > limit {
			return nil, false
		}
	}
	return places, true
}
