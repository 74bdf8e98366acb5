package mock

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
)

// since are the devices that are not as in another view, of which the inventory was
// published; found by what the two scenarios say, so that the others cost nothing. ok is
// false where that is not all that differs, or could be: then it takes the whole
// inventory, and so it does where one thing is said of many devices.
func (v *view) since(last *view) (devices []*sdk.Device, ok bool) {
	if last.cfg == nil || v.cfg != last.cfg || v.garbage || last.garbage || v.problem != last.problem || len(last.unmade) > 0 ||
		!slices.Equal(v.Problems, last.Problems) || !slices.Equal(v.plugged, last.plugged) {
		return nil, false
	}
	differ := map[*spec]bool{}
	for _, id := range v.touched(last) {
		s := v.find(id)
		if s == nil || len(differ) > len(v.specs())/4 {
			return nil, false
		}
		differ[s] = true
	}
	unplugged := slices.ContainsFunc(slices.Collect(maps.Values(v.Devices)), func(e entry) bool { return e.Unplugged })
	for s := range differ {
		e := v.entry(s)
		if e.Unplugged || last.entry(s).Unplugged {
			return nil, false
		}
		d := v.device(s, e)
		if unplugged {
			d = withoutLinks(d, func(id string) bool { peer := v.find(id); return peer != nil && v.entry(peer).Unplugged })
		}
		devices = append(devices, d)
	}
	return devices, true
}

// touched are the keys of what two scenarios say differently, and the devices of which one
// view alone knows of a reset.
func (v *view) touched(last *view) []string {
	var keys []string
	for key, e := range v.Devices {
		if before, ok := last.Devices[key]; !ok || !e.shows(before) {
			keys = append(keys, key)
		}
	}
	for key := range last.Devices {
		if _, ok := v.Devices[key]; !ok {
			keys = append(keys, key)
		}
	}
	for id, f := range v.cleared {
		if before, ok := last.cleared[id]; !ok || before != f {
			keys = append(keys, id)
		}
	}
	for id := range last.cleared {
		if _, ok := v.cleared[id]; !ok {
			keys = append(keys, id)
		}
	}
	return keys
}

// shows reports whether an inventory has the same of both entries.
func (e entry) shows(other entry) bool {
	return e.Recovered == other.Recovered && e.Unknown == other.Unknown && e.Unplugged == other.Unplugged &&
		(e.Fault == nil) == (other.Fault == nil) && (e.Fault == nil || *e.Fault == *other.Fault) &&
		maps.EqualFunc(e.Attributes, other.Attributes, func(a, b value) bool { return proto.Equal(a.wire, b.wire) })
}
