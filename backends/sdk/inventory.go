package sdk

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Inventory is the state that a backend publishes.
type Inventory struct {
	// Devices are in a stable order.
	Devices []*Device
	// Unread is what could not be looked at: without it, a device that is not among Devices is gone.
	Unread []*Unread
	// CounterSets are those that the devices consume from.
	CounterSets []*CounterSet
	// Problems are about hardware that could not be listed; up to 64.
	Problems []string
	// NodeLabels are labels of the node as the vendor's own tools name them; up to 256.
	NodeLabels []*NodeLabel
	// Immutable means that a device is never changed once it was published: one that is
	// published again by the same pointer is not encoded again. It is for backends with
	// thousands of devices.
	Immutable bool
}

// carried leaves out devices that CDI cannot give to a container, each with a problem.
func carried(devices []*Device) (kept []*Device, problems []string) {
	for _, d := range devices {
		if onlyJoined(d.GetEdits()) {
			problems = append(problems, fmt.Sprintf("device %s is left out: its only edits are joined variables, which a CDI device cannot have; "+
				"the backend must add another edit, such as a variable that is not joined", d.GetId()))
			continue
		}
		kept = append(kept, d)
	}
	return kept, problems
}

// validLabels leaves out labels that protobuf cannot encode, each with a problem.
func validLabels(labels []*NodeLabel) (kept []*NodeLabel, problems []string) {
	for _, l := range labels {
		if text := l.GetName() + l.GetValue() + l.GetDeviceId() + l.GetSharedValue(); !utf8.ValidString(text) {
			problems = append(problems, fmt.Sprintf("label %q of the node is left out: its text is not valid UTF-8", clip(l.GetName(), maxAttribute)))
			continue
		}
		kept = append(kept, l)
	}
	return kept, problems
}

// unreadEntries returns the entries with text that protobuf can encode. More than an inventory may have become one for all
// devices.
func unreadEntries(entries []*Unread) (valid []*Unread) {
	if len(entries) > backendplugin.MaxDevices {
		entries = []*Unread{{Reason: entries[0].GetReason()}}
	}
	for _, u := range entries {
		valid = append(valid, &Unread{
			DeviceId: clip(u.GetDeviceId(), maxMessage), PciBusId: clip(u.GetPciBusId(), maxMessage), Reason: clip(u.GetReason(), maxMessage),
		})
	}
	return valid
}

func onlyJoined(e *Edits) bool {
	return len(e.GetEnv()) > 0 && len(e.GetEnv()) == len(e.GetEnvSeparators()) &&
		len(e.GetDeviceNodes())+len(e.GetMounts())+len(e.GetHooks())+len(e.GetAdditionalGids())+len(e.GetNetDevices()) == 0
}

// inventory is a published inventory. It is never changed; nil means none yet.
type inventory struct {
	// encoded has all but the generation and the settings revision, the same for equal
	// inventories.
	encoded              []byte
	devices              int // their number
	generation, revision uint64
	// err is why the inventory cannot be sent; it counts as a generation, too.
	err error
}

// encode returns an inventory of these devices and the rest of its message, without a
// generation. known caches the encoded fields of devices; nil if devices may change. size is
// about that of the result.
func encode(devices []*Device, rest *backendv1.Inventory, known map[*Device][]byte, size int) *inventory {
	out := &inventory{devices: len(devices), encoded: make([]byte, 0, size)}
	deterministic := proto.MarshalOptions{Deterministic: true}
	for _, d := range devices {
		if field, ok := known[d]; ok {
			out.encoded = append(out.encoded, field...)
			continue
		}
		start := len(out.encoded)
		var err error
		if out.encoded, err = deterministic.MarshalAppend(out.encoded, &backendv1.Inventory{Devices: []*Device{d}}); err != nil {
			return &inventory{err: fmt.Errorf("device %q cannot be encoded for the core: %w", clip(d.GetId(), maxAttribute), err)}
		}
		if known != nil {
			known[d] = bytes.Clone(out.encoded[start:])
		}
	}
	out.encoded, out.err = deterministic.MarshalAppend(out.encoded, rest)
	return out
}

// equal reports whether two inventories are the same. One that cannot be encoded is the same if
// its error is.
func (i *inventory) equal(o *inventory) bool {
	return i != nil && bytes.Equal(i.encoded, o.encoded) && fmt.Sprint(i.err) == fmt.Sprint(o.err)
}

// number returns the generation; 0 without an inventory.
func (i *inventory) number() uint64 {
	if i == nil {
		return 0
	}
	return i.generation
}

// decode returns the published inventory.
func (i *inventory) decode() (*backendv1.Inventory, error) {
	wire := &backendv1.Inventory{}
	if err := proto.Unmarshal(i.encoded, wire); err != nil {
		return nil, err
	}
	wire.Generation, wire.SettingsRevision = i.generation, i.revision
	return wire, nil
}

// event returns the message to send, or the status that ends the stream.
func (i *inventory) event() (*backendv1.WatchResponse, error) {
	if i.err != nil {
		return nil, status.Error(codes.Internal, clip(i.err.Error(), maxMessage))
	}
	wire := &backendv1.Inventory{Generation: i.generation, SettingsRevision: i.revision}
	wire.ProtoReflect().SetUnknown(i.encoded) // protobuf sends it as it is
	event := &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: wire}}
	if size := proto.Size(event); size > backendplugin.MaxMessageSize {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the inventory of %d devices is %d bytes long; at most %d can be sent", i.devices, size, backendplugin.MaxMessageSize)
	}
	return event, nil
}
