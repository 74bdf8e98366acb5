package sdk

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The numbers of the fields of WatchResponse, of Inventory and of Changes, where those of
// both are the same.
const (
	fieldInventory  = 1
	fieldChanges    = 3
	fieldGeneration = 1
	fieldDevices    = 2
	fieldProblems   = 3
	fieldRevision   = 4
	fieldBase       = 5
)

// inventory is what was published once, as it goes to the core. Encoded, devices take
// a tenth of the memory, and tell by their bytes whether anything changed. It never
// changes; nil stands for none yet.
type inventory struct {
	generation uint64
	revision   uint64 // of the settings
	devices    list
	problems   []byte // as they are in the message
	err        error  // why there is none
}

// number is the generation; 0 of none.
func (i *inventory) number() uint64 {
	if i == nil {
		return 0
	}
	return i.generation
}

// size is how long the message is, in bytes, but for a few.
func (i *inventory) size() int { return i.devices.size + len(i.problems) }

// event is the message to send.
func (i *inventory) event() *backendv1.WatchResponse {
	return encodedEvent(fieldInventory, i.generation, i.devices.blocks, i.problems, i.revision, 0)
}

// changes is the message to send to a stream that was sent base last; nil if that takes
// the whole inventory: devices came, went or changed places, or many of them changed.
func (i *inventory) changes(base *inventory) *backendv1.WatchResponse {
	if base == nil || base.err != nil {
		return nil
	}
	devices, ok := i.devices.since(&base.devices)
	if !ok {
		return nil
	}
	return encodedEvent(fieldChanges, i.generation, devices, i.problems, i.revision, base.generation)
}

// encodedEvent is a message made of what is encoded already. It holds that as fields that
// nobody has looked into, which any encoder of protobuf writes as they are.
func encodedEvent(field protowire.Number, generation uint64, devices [][]byte, problems []byte, revision, base uint64) *backendv1.WatchResponse {
	first := appendNumber(nil, fieldGeneration, generation)
	last := appendNumber(appendNumber(nil, fieldRevision, revision), fieldBase, base)
	length := len(first) + len(problems) + len(last)
	for _, d := range devices {
		length += len(d)
	}
	data := make([]byte, 0, 1+protowire.SizeBytes(length))
	data = protowire.AppendVarint(protowire.AppendTag(data, field, protowire.BytesType), uint64(length))
	data = append(data, first...)
	for _, d := range devices {
		data = append(data, d...)
	}
	data = append(append(data, problems...), last...)
	event := &backendv1.WatchResponse{}
	event.ProtoReflect().SetUnknown(data)
	return event
}

// appendNumber appends a field, if it is not 0.
func appendNumber(to []byte, field protowire.Number, value uint64) []byte {
	if value == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), value)
}

// decode is the inventory again, the caller's own.
func (i *inventory) decode() (*backendv1.Inventory, error) {
	if i == nil {
		return nil, nil
	}
	if i.err != nil {
		return nil, i.err
	}
	event := &backendv1.WatchResponse{}
	if err := proto.Unmarshal(i.event().ProtoReflect().GetUnknown(), event); err != nil {
		return nil, fmt.Errorf("decode the inventory: %w", err)
	}
	return event.GetInventory(), nil
}

// encode makes the inventory that follows on another one. The same devices are always
// encoded as the same bytes, and nothing is kept of those that are the same; it is
// changed if anything is not.
func encode(before *inventory, devices []*Device, problems []string) (next *inventory, changed bool, err error) {
	if before == nil {
		before = &inventory{}
	}
	next = &inventory{}
	if next.devices, changed, err = before.devices.next(devices); err != nil {
		return nil, false, err
	}
	for _, p := range problems[:min(len(problems), maxProblems)] {
		next.problems = protowire.AppendTag(next.problems, fieldProblems, protowire.BytesType)
		next.problems = protowire.AppendString(next.problems, clip(p, maxMessage))
	}
	return next, changed || !bytes.Equal(next.problems, before.problems), nil
}

// change makes the inventory in which some devices are other ones of the same IDs.
func (i *inventory) change(devices []*Device) (next *inventory, changed bool, err error) {
	switch {
	case i == nil:
		return nil, false, errors.New("no inventory was published yet that could be changed")
	case i.err != nil:
		return nil, false, fmt.Errorf("there is no inventory that could be changed: %w", i.err)
	}
	next = &inventory{problems: i.problems}
	next.devices, changed, err = i.devices.replace(devices)
	return next, changed, err
}
