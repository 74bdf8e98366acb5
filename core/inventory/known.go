package inventory

import "bytes"

// known are the devices in force, for a report that lists some of them again.
type known struct {
	// wire is what the devices were made of, but for those with defects; nil if it would
	// be made into other devices now.
	wire    *Wire
	defects *defects
	devices []*Device
	// next is the place after that of the device that was found last: most stay in order.
	next int
	// byID is for devices whose wire does not say where they are.
	byID map[string]*Device
}

// known are the source's.
func (src *source) known() *known {
	k := &known{}
	if src.backend == nil {
		return k
	}
	k.devices = src.backend.Devices
	if src.wire != nil && equalDescription(src.wireDesc, src.desc) {
		k.wire, k.defects = src.wire, src.defects
	}
	return k
}

// unchanged is the device in force that has the same bytes; nil if there is none, or if
// it has links, which depend on the others that are listed, or a defect.
func (k *known) unchanged(now encoded) *Device {
	if k.wire == nil || now.raw == nil {
		return nil
	}
	place := k.next
	if place >= k.wire.Len() || !bytes.Equal(k.wire.at(place).raw, now.raw) {
		place = k.wire.find(now.id())
	}
	if place < 0 || !bytes.Equal(k.wire.at(place).raw, now.raw) {
		return nil
	}
	if k.next = place + 1; !k.defects.sound(place) {
		return nil
	}
	if d := k.devices[k.defects.place(place)]; len(d.Links) == 0 {
		return d
	}
	return nil
}

// before is the device in force with that ID, or nil.
func (k *known) before(id string) *Device {
	if k.wire != nil {
		place := k.wire.find([]byte(id))
		if place < 0 {
			return nil
		}
		if at := k.defects.place(place); at >= 0 {
			return k.devices[at]
		} // it was left out, and perhaps another one of that ID was not
	}
	if k.byID == nil {
		k.byID = byID(k.devices)
	}
	return k.byID[id]
}
