package sdk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The numbers of the fields of WatchResponse and of Inventory.
const (
	fieldInventory  = 1
	fieldGeneration = 1
	fieldDevices    = 2
	fieldProblems   = 3
	fieldRevision   = 4
)

const (
	// maxField is what a tag of one byte and a number take at most, in bytes.
	maxField = 1 + binary.MaxVarintLen64
	// room is kept free before the devices for what is known only after them: the
	// length of the inventory and its generation.
	room = 2 * maxField
	// slack is how much longer an inventory may be than the one before without being
	// copied for it, in bytes.
	slack = 4096
)

// inventory is what was published once, as it goes to the core. Encoded, devices take
// a tenth of the memory, and tell by their bytes whether anything changed. It never
// changes; nil stands for none yet.
type inventory struct {
	generation uint64
	revision   uint64 // of the settings
	devices    int
	body       []byte // devices and problems; a part of message
	message    []byte // the whole WatchResponse
	err        error  // why there is no message
}

// number is the generation; 0 of none.
func (i *inventory) number() uint64 {
	if i == nil {
		return 0
	}
	return i.generation
}

// event is the message to send. It holds what is encoded already as fields that nobody
// has looked into, which any encoder of protobuf writes as they are.
func (i *inventory) event() *backendv1.WatchResponse {
	event := &backendv1.WatchResponse{}
	event.ProtoReflect().SetUnknown(i.message)
	return event
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
	if err := proto.Unmarshal(i.message, event); err != nil {
		return nil, fmt.Errorf("decode the inventory: %w", err)
	}
	return event.GetInventory(), nil
}

// draft is an inventory that is being encoded. Nothing is kept of it for as long as it
// is the same as the one before.
type draft struct {
	old   []byte // the body of the one before
	again int    // how much of old has come again
	data  []byte // room and body, from the first difference on; nil until then
	head  []byte
}

// encode encodes an inventory, the same devices always as the same bytes.
func encode(before *inventory, devices []*Device, problems []string) (*draft, error) {
	d := &draft{}
	if before != nil {
		d.old = before.body
	}
	steady := proto.MarshalOptions{Deterministic: true}
	var value []byte
	for _, device := range devices {
		var err error
		if value, err = steady.MarshalAppend(value[:0], device); err != nil {
			return nil, fmt.Errorf("device %q cannot be encoded for the core: %w", clip(device.GetId(), maxAttribute), err)
		}
		d.add(fieldDevices, value)
	}
	for _, p := range problems[:min(len(problems), maxProblems)] {
		d.add(fieldProblems, []byte(clip(p, maxMessage)))
	}
	return d, nil
}

// add adds a field.
func (d *draft) add(field protowire.Number, value []byte) {
	d.head = protowire.AppendTag(d.head[:0], field, protowire.BytesType)
	d.head = protowire.AppendVarint(d.head, uint64(len(value)))
	if d.data == nil {
		rest, ok := bytes.CutPrefix(d.old[d.again:], d.head)
		if ok && bytes.HasPrefix(rest, value) {
			d.again += len(d.head) + len(value)
			return
		}
		d.own()
	}
	d.data = append(append(d.data, d.head...), value...)
}

// own copies what has come again, as it goes on in another way.
func (d *draft) own() {
	d.data = make([]byte, room, room+len(d.old)+slack)
	d.data = append(d.data, d.old[:d.again]...)
}

// same says whether all is as in the inventory before, and nothing is missing.
func (d *draft) same() bool { return d.data == nil && d.again == len(d.old) }

// finish makes an inventory of it.
func (d *draft) finish(generation, revision uint64, devices int) *inventory {
	if d.data == nil {
		d.own()
	}
	end := len(d.data)
	if revision != 0 {
		d.data = protowire.AppendTag(d.data, fieldRevision, protowire.VarintType)
		d.data = protowire.AppendVarint(d.data, revision)
	}
	var count, head [maxField]byte
	number := protowire.AppendVarint(protowire.AppendTag(count[:0], fieldGeneration, protowire.VarintType), generation)
	start := room - len(number)
	copy(d.data[start:], number)
	length := protowire.AppendTag(head[:0], fieldInventory, protowire.BytesType)
	length = protowire.AppendVarint(length, uint64(len(d.data)-start))
	start -= len(length)
	copy(d.data[start:], length)
	return &inventory{
		generation: generation, revision: revision, devices: devices,
		body: d.data[room:end:end], message: d.data[start:len(d.data):len(d.data)],
	}
}
