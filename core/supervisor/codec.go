package supervisor

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// maxParts is how many messages a message of a backend's may have in it, such as
	// devices, links, metrics and labels. The contract's greatest sample has 590,000
	// and its greatest inventory fewer. Without a bound, 8 MiB of empty messages would take
	// half a gigabyte of memory.
	maxParts = 1 << 20
	// maxNesting is more than the contract has.
	maxNesting = 16
)

var (
	errTooManyParts = fmt.Errorf("the message has more than %d parts", maxParts)
	errNesting      = fmt.Errorf("the message is nested more than %d levels deep", maxNesting)
	errMalformed    = errors.New("the message is no valid protobuf")
)

// boundedCodec is gRPC's codec for protobuf, but refuses messages that are small on
// the wire and big in memory before it makes them.
type boundedCodec struct{ encoding.CodecV2 }

func newBoundedCodec() boundedCodec { return boundedCodec{encoding.GetCodecV2(grpcproto.Name)} }

// watched is a WatchResponse, of which the devices are not decoded: an inventory may
// have many, and each comes again with every change of another.
type watched struct {
	// inventory, or changes, is what came; both are nil for a heartbeat.
	inventory *inventory.Wire
	changes   *inventory.Changes
	// size is the message's, in bytes.
	size int
}

// greatDevice is how many bytes a device may have for its parts not to be counted.
const greatDevice = 64 << 10

// The numbers of the fields WatchResponse.inventory and changes, the first and the last of
// the events.
const (
	watchInventory = 1
	watchChanges   = 3
)

// decode reads a message; the last event in it counts, and no other is looked into: there
// is room for millions.
func (w *watched) decode(data []byte) error {
	w.size = len(data)
	var event protowire.Number
	var content []byte
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return errMalformed
		}
		if kind == protowire.BytesType && number >= watchInventory && number <= watchChanges {
			event = number
			content, _ = protowire.ConsumeBytes(data)
		}
		data = data[n:]
	}
	return w.event(event, content)
}

// event takes an inventory, or changes.
func (w *watched) event(number protowire.Number, content []byte) (err error) {
	var largest int
	var message proto.Message
	switch number {
	case watchInventory:
		if w.inventory, err = inventory.ParseWire(content); err != nil {
			return err
		}
		largest, message = w.inventory.Largest(), (*backendv1.Inventory)(nil)
	case watchChanges:
		if w.changes, err = inventory.ParseChanges(content); err != nil {
			return err
		}
		largest, message = w.changes.Largest(), (*backendv1.Changes)(nil)
	}
	// Devices are decoded one by one; only a great one takes much memory.
	if largest <= greatDevice {
		return nil
	}
	parts := maxParts
	return countParts(content, message.ProtoReflect().Descriptor(), &parts, maxNesting)
}

// brokenMessage begins what is said of a message that breaks the contract. gRPC keeps
// only the words of a codec's error, so that this is how it is known again.
const brokenMessage = "it sent a message that breaks the contract: "

// Unmarshal reads a message of at most maxParts parts, or what is watched.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, into any) error {
	if err := c.unmarshal(data, into); err != nil {
		return fmt.Errorf(brokenMessage+"%w", err)
	}
	return nil
}

// broken is what the codec said of a message in the words of a call's error; "" if that
// is about something else.
func broken(words string) string {
	if _, after, ok := strings.Cut(words, brokenMessage); ok {
		return brokenMessage + after
	}
	return ""
}

func (c boundedCodec) unmarshal(data mem.BufferSlice, into any) error {
	if w, ok := into.(*watched); ok {
		return w.decode(data.Materialize())
	}
	// Each part has two bytes at least.
	if message, ok := into.(proto.Message); ok && data.Len() > 2*maxParts {
		wire := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer wire.Free()
		parts := maxParts
		if err := countParts(wire.ReadOnlyData(), message.ProtoReflect().Descriptor(), &parts, maxNesting); err != nil {
			return err
		}
	}
	err := c.CodecV2.Unmarshal(data, into)
	if message, ok := into.(proto.Message); ok && err != nil {
		if field := inventory.GarbledField(data.Materialize(), message.ProtoReflect().Descriptor()); field != "" {
			return fmt.Errorf("the text of %s is not valid UTF-8: %w", field, err)
		}
	}
	return err
}

// countParts takes the messages in a message from what is left.
func countParts(wire []byte, of protoreflect.MessageDescriptor, left *int, levels int) error {
	if levels == 0 {
		return errNesting
	}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return errMalformed
		}
		wire = wire[n:]
		if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
			return errMalformed
		}
		field := of.Fields().ByNumber(number)
		if field != nil && field.Kind() == protoreflect.MessageKind && kind == protowire.BytesType {
			if *left--; *left < 0 {
				return errTooManyParts
			}
			part, _ := protowire.ConsumeBytes(wire)
			if err := countParts(part, field.Message(), left, levels-1); err != nil {
				return err
			}
		}
		wire = wire[n:]
	}
	return nil
}
