package inventory

// Place is where in a snapshot a device is.
type Place struct{ Backend, Device int32 }

// Differences are the places at which two snapshots have another state of a device, in
// order. ok is false if there is more to it: unless both have the same backends with
// devices of the same IDs and parents in the same order. What else is said of the
// backends is not compared.
//
// Devices never change and snapshots share them, so this looks at no device that is the
// same: it is how each stage that makes something of a snapshot does so again only where
// that differs from the one that it saw last, whatever came in between.
func Differences(before, after *Snapshot) (places []Place, ok bool) {
	if len(before.Backends) != len(after.Backends) {
		return nil, false
	}
	for i, backend := range after.Backends {
		at, ok := backend.Differences(before.Backends[i])
		if !ok {
			return nil, false
		}
		for _, j := range at {
			places = append(places, Place{int32(i), j}) //nolint:gosec // bounded by the devices of a node
		}
	}
	return places, true
}

// Differences are those of one backend, by the place among its devices.
func (b *Backend) Differences(before *Backend) (places []int32, ok bool) {
	if b == before {
		return nil, true
	}
	if b.Name != before.Name || len(b.Devices) != len(before.Devices) {
		return nil, false
	}
	for i, now := range b.Devices {
		was := before.Devices[i]
		if was == now {
			continue
		}
		if was.Key != now.Key || was.Parent != now.Parent {
			return nil, false
		}
		places = append(places, int32(i)) //nolint:gosec // bounded by the devices of a node
	}
	return places, true
}
