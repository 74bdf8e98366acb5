// Package deviceindex finds encoded devices by their ID: what both ends of a Watch
// stream need for Changes. It knows of a Device (proto/accelmux/backend/v1) where its
// ID is and no more, and it keeps no devices: they stay with whoever has them.
package deviceindex

import (
	"hash/maphash"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"
)

// fieldID is the number of the field Device.id.
const fieldID = 1

// ID is the ID of an encoded device, as a part of it: the last one in it counts, as for
// any decoder. It is empty if there is none before what is no valid protobuf.
func ID(device []byte) []byte {
	var id []byte
	for len(device) > 0 {
		number, kind, n := protowire.ConsumeTag(device)
		if n < 0 {
			break
		}
		device = device[n:]
		if n = protowire.ConsumeFieldValue(number, kind, device); n < 0 {
			break
		}
		if number == fieldID && kind == protowire.BytesType {
			id, _ = protowire.ConsumeBytes(device)
		}
		device = device[n:]
	}
	return id
}

// Index finds devices of a list by their ID. It takes 10 to 20 bytes a device and
// stays true for as long as the list has the same IDs in the same order. Any number of
// goroutines may call Find at a time, but none while one calls Add.
type Index struct {
	seed maphash.Seed
	// slots has, from where its hash points to, a device's place in the list, counted
	// from 1, in the lower half, and a part of its hash in the upper; 0 is free.
	slots []uint64
}

// IDs gives the ID of the device at a place that was added.
type IDs func(place int) []byte

// New is an index for at most n devices.
func New(n int) *Index {
	const most = 5 // of 4: a quarter stays free at least
	return &Index{seed: maphash.MakeSeed(), slots: make([]uint64, 1<<bits.Len(uint(n*most/4+1)))}
}

// Add adds the device at a place. Of several with one ID the first that is added counts.
func (x *Index) Add(id []byte, place int, ids IDs) {
	if at, slot := x.find(id, ids); at < 0 {
		x.slots[slot] = x.hash(id)&^lower | uint64(place+1)
	}
}

// Find is the place of the device with this ID, or -1.
func (x *Index) Find(id []byte, ids IDs) int {
	place, _ := x.find(id, ids)
	return place
}

const lower = 1<<32 - 1

func (x *Index) hash(id []byte) uint64 { return maphash.Bytes(x.seed, id) }

// find is the place of a device, and the slot that has it; without one, -1 and the slot
// that is free for it.
func (x *Index) find(id []byte, ids IDs) (place, slot int) {
	hash, mask := x.hash(id), len(x.slots)-1
	for slot = int(hash&lower) & mask; x.slots[slot] != 0; slot = (slot + 1) & mask {
		if x.slots[slot]&^lower != hash&^lower {
			continue
		}
		if place = int(x.slots[slot]&lower) - 1; string(ids(place)) == string(id) {
			return place, slot
		}
	}
	return -1, slot
}
