package sdk

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/proto/deviceindex"
)

// blockSize is how many devices are in a block of a list: few enough to copy them for one
// that changed, and enough for few blocks.
const blockSize = 64

// list is the devices of an inventory, encoded. Lists share the blocks in which nothing
// changed. It never changes.
type list struct {
	// blocks have blockSize devices each but the last, as they are in the message: tag,
	// length and device.
	blocks [][]byte
	count  int
	size   int // of all blocks, in bytes
	// places is shared by lists of the same IDs in the same order, and by no others. Only
	// the empty list that everything begins with has none.
	places *places
}

// places find devices by their ID; made when one is looked for first.
type places struct {
	once  sync.Once
	index *deviceindex.Index
}

// encoder encodes devices as fields, one at a time.
type encoder struct{ value, field []byte }

var steady = proto.MarshalOptions{Deterministic: true}

// encode is good until the next call.
func (e *encoder) encode(d *Device) ([]byte, error) {
	var err error
	if e.value, err = steady.MarshalAppend(e.value[:0], d); err != nil {
		return nil, fmt.Errorf("device %q cannot be encoded for the core: %w", clip(d.GetId(), maxAttribute), err)
	}
	e.field = protowire.AppendTag(e.field[:0], fieldDevices, protowire.BytesType)
	e.field = protowire.AppendBytes(e.field, e.value)
	return e.field, nil
}

// cut takes the first field off a block; nil if there is none.
func cut(block []byte) (field, rest []byte) {
	_, _, n := protowire.ConsumeField(block)
	if n < 0 {
		return nil, nil
	}
	return block[:n:n], block[n:]
}

// id is the ID of the device in a field.
func id(field []byte) []byte {
	_, _, n := protowire.ConsumeTag(field)
	value, _ := protowire.ConsumeBytes(field[max(n, 0):])
	return deviceindex.ID(value)
}

// next is the list of other devices, which may be the same. changed says whether anything
// is not.
func (l *list) next(devices []*Device) (next list, changed bool, err error) {
	next = list{count: len(devices), blocks: make([][]byte, 0, (len(devices)+blockSize-1)/blockSize), places: l.places}
	var e encoder
	var scratch []byte
	moved := l.places == nil || l.count != len(devices)
	for block := range slices.Chunk(devices, blockSize) {
		var old []byte
		if n := len(next.blocks); n < len(l.blocks) {
			old = l.blocks[n]
		}
		rest, same := old, 0 // same is how much of old has come again, until anything else comes
		scratch = scratch[:0]
		for _, d := range block {
			field, err := e.encode(d)
			if err != nil {
				return list{}, false, err
			}
			var was []byte
			if was, rest = cut(rest); bytes.Equal(was, field) {
				if len(scratch) == 0 {
					same += len(field)
					continue
				}
			} else if !moved {
				moved = string(id(was)) != d.GetId()
			}
			if len(scratch) == 0 {
				scratch = append(scratch, old[:same]...)
			}
			scratch = append(scratch, field...)
		}
		switch {
		case len(scratch) > 0:
			old, changed = bytes.Clone(scratch), true
		case same < len(old): // devices at its end went
			old, changed = bytes.Clone(old[:same]), true
		}
		next.blocks, next.size = append(next.blocks, old), next.size+len(old)
	}
	if moved {
		next.places = &places{}
	}
	return next, changed || l.count != len(devices), nil
}

// replace is the list in which some devices are other ones of the same IDs.
func (l *list) replace(devices []*Device) (next list, changed bool, err error) {
	next = *l
	next.blocks = slices.Clone(l.blocks)
	var e encoder
	seen := make(map[int]bool, len(devices))
	for _, d := range devices {
		place := l.find([]byte(d.GetId()))
		switch {
		case place < 0:
			return list{}, false, fmt.Errorf("device %q is not in the inventory that was published last", clip(d.GetId(), maxAttribute))
		case seen[place]:
			return list{}, false, fmt.Errorf("device %q comes twice", clip(d.GetId(), maxAttribute))
		}
		seen[place] = true
		field, err := e.encode(d)
		if err != nil {
			return list{}, false, err
		}
		block := &next.blocks[place/blockSize]
		was, rest := at(*block, place%blockSize)
		if bytes.Equal(was, field) {
			continue
		}
		*block = slices.Concat((*block)[:len(*block)-len(was)-len(rest)], field, rest)
		next.size += len(field) - len(was)
		changed = true
	}
	return next, changed, nil
}

// at is the field at a place of a block, and what comes after it.
func at(block []byte, place int) (field, rest []byte) {
	for field, rest = cut(block); place > 0; place-- {
		field, rest = cut(rest)
	}
	return field, rest
}

// since are the devices that are not as in another list, as fields. ok is false if those
// do not tell the whole of it to one who knows the other list: it has other IDs or
// another order, or a device that changed has the ID of one before it. It is false as
// well if they are more than a few.
func (l *list) since(other *list) (fields [][]byte, ok bool) {
	if l.places != other.places {
		return nil, false
	}
	for b, block := range l.blocks {
		before := other.blocks[b]
		if &block[0] == &before[0] {
			continue
		}
		for place := b * blockSize; len(block) > 0; place++ {
			var was, now []byte
			was, before = cut(before)
			now, block = cut(block)
			if bytes.Equal(was, now) {
				continue
			}
			if fields = append(fields, now); len(fields) > l.count/4+1 || l.find(id(now)) != place {
				return nil, false
			}
		}
	}
	return fields, true
}

// find is the place of the first device with this ID, or -1.
func (l *list) find(wanted []byte) int {
	if l.places == nil {
		return -1
	}
	ids := func(place int) []byte {
		field, _ := at(l.blocks[place/blockSize], place%blockSize)
		return id(field)
	}
	l.places.once.Do(func() {
		l.places.index = deviceindex.New(l.count)
		for b, block := range l.blocks {
			for place := b * blockSize; len(block) > 0; place++ {
				var field []byte
				field, block = cut(block)
				l.places.index.Add(id(field), place, ids)
			}
		}
	})
	return l.places.index.Find(wanted, ids)
}
