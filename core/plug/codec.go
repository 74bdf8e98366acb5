package plug

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
	"github.com/accelmux/accelmux/proto/backendplugin"
)

const (
	// maxDecoded bounds the estimated memory of a message, in bytes. The estimate of an inventory
	// covers everything that the core stores of the backend's devices. 4,096 devices with 20
	// attributes and 16 links each take four fifths of the bound. Up to four inventories of a
	// backend that changes all the time are in memory at once; the agent still stays below 512 MiB
	// with four backends at this bound (section memory of test/bench). Without a bound, a message of
	// 8 MiB that consists of empty messages would take a gigabyte.
	maxDecoded = backendplugin.MaxMessageMemory
	// maxNesting bounds the levels of nested messages. The contract has fewer.
	maxNesting = 16
)

var (
	errTooMuch   = fmt.Errorf("it takes more than %d MiB of the core's memory: report fewer or smaller devices, attributes, links, container edits, metrics or labels", maxDecoded>>20)
	errNesting   = fmt.Errorf("the message is nested more than %d levels deep", maxNesting)
	errMalformed = errors.New("the message is no valid protobuf")
)

// received is a message of a Watch stream.
type received struct {
	// report is the inventory; nil for a heartbeat.
	report *inventory.Report
	// before is the previous report of the stream; nil if there is none.
	before *inventory.Report
	// size is the message's length on the wire, in bytes.
	size int
}

// guardedCodec is gRPC's codec for protobuf. Before a message of a backend is decoded:
//   - A message that would take more than maxDecoded bytes of memory is refused, however small
//     it is on the wire.
//   - Texts are cleaned. Protobuf would refuse a whole message for a byte that is not valid UTF-8.
type guardedCodec struct{ encoding.CodecV2 }

// Codec returns the codec for a connection to a backend.
func Codec() encoding.CodecV2 { return guardedCodec{encoding.GetCodecV2(grpcproto.Name)} }

// brokenMessage is the beginning of the error about a message that breaks the contract. gRPC keeps
// only the text of a codec's error, so the error is recognized by this text.
const brokenMessage = "it sent a message that breaks the contract: "

// broken returns the codec's error in the text of a call's error; "" if the call failed for another
// reason.
func broken(text string) string {
	if _, after, ok := strings.Cut(text, brokenMessage); ok {
		return brokenMessage + after
	}
	return ""
}

// Unmarshal checks and decodes a message. The devices of an inventory stay encoded. Unknown fields
// are dropped, except those of devices.
func (c guardedCodec) Unmarshal(data mem.BufferSlice, into any) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	g := guard{memory: maxDecoded}
	var err error
	switch into := into.(type) {
	case *received:
		into.size = data.Len()
		into.report, err = g.report(buffer.ReadOnlyData(), into.before)
	case proto.Message:
		var wire []byte
		if wire, _, err = g.Check(buffer.ReadOnlyData(), into.ProtoReflect().Descriptor()); err == nil {
			err = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(wire, into)
		}
	default:
		return c.CodecV2.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf(brokenMessage+"%w", err)
	}
	return nil
}

// inventoryField is the number of WatchResponse.inventory.
var inventoryField = (*backendv1.WatchResponse)(nil).ProtoReflect().Descriptor().Fields().ByName("inventory").Number()

// report returns the inventory of a WatchResponse, the last one if there are several; nil if it
// has none.
func (g *guard) report(wire []byte, before *inventory.Report) (*inventory.Report, error) {
	var encoded []byte
	found := false
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeField(wire)
		if n < 0 {
			return nil, errMalformed
		}
		if number == inventoryField && kind == protowire.BytesType {
			_, _, start := protowire.ConsumeTag(wire)
			encoded, _ = protowire.ConsumeBytes(wire[start:])
			found = true
		}
		wire = wire[n:]
	}
	if !found {
		return nil, nil
	}
	return inventory.SplitReport(encoded, before, g)
}

// guard checks one encoded message. It implements [inventory.Guard].
type guard struct {
	// memory is the rest of maxDecoded, in bytes.
	memory int
	// unclean is set when a text must be cleaned.
	unclean bool
}

// Check returns the message, or a copy with clean texts if any was not.
func (g *guard) Check(wire []byte, of protoreflect.MessageDescriptor) ([]byte, int, error) {
	before := g.memory
	err := g.walk(wire, of, maxNesting)
	if err == nil && g.unclean {
		wire = appendClean(nil, wire, of)
		g.memory = before
		err = g.walk(wire, of, maxNesting)
		g.unclean = false
	}
	return wire, before - g.memory, err
}

// Charge subtracts memory, in bytes, from the rest of the bound.
func (g *guard) Charge(memory int) error {
	if g.memory -= memory; g.memory < 0 {
		return errTooMuch
	}
	return nil
}

// costs are estimates of the memory of a message, in bytes, without its strings and lists. Devices
// are decoded one at a time, so only what the core stores of them counts. An attribute itself costs
// nothing, as the map entry with its name is charged. A sample is decoded as a whole, while the
// previous one is still stored and served.
var costs = map[protoreflect.FullName]int{
	nameOf(&backendv1.Device{}): 512, nameOf(&backendv1.Attribute{}): 0, nameOf(&backendv1.Link{}): 64,
	nameOf(&backendv1.Metric{}): 832, nameOf(&backendv1.Metric{}) + ".LabelsEntry": 384,
}

func nameOf(m proto.Message) protoreflect.FullName { return m.ProtoReflect().Descriptor().FullName() }

// cost returns the estimated memory of a message of this type, in bytes.
func cost(of protoreflect.MessageDescriptor) int {
	known, ok := costs[of.FullName()]
	switch {
	case ok:
		return known
	case of.IsMapEntry():
		return 32
	}
	return 64 + 8*of.Fields().Len()
}

// walk checks and charges a message and the messages in it.
func (g *guard) walk(wire []byte, of protoreflect.MessageDescriptor, levels int) error {
	if levels == 0 {
		return errNesting
	}
	fields := of.Fields()
	if err := g.Charge(cost(of)); err != nil {
		return err
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
		field := fields.ByNumber(number)
		var err error
		switch {
		case field == nil: // the core stores a device encoded, with its unknown fields
			err = g.Charge(n)
		case kind == protowire.BytesType:
			content, _ := protowire.ConsumeBytes(wire)
			err = g.field(content, field, levels)
		case field.IsList():
			err = g.Charge(8)
		}
		if err != nil {
			return err
		}
		wire = wire[n:]
	}
	return nil
}

// field checks and charges a string, a message in the message, bytes or a packed list.
func (g *guard) field(content []byte, field protoreflect.FieldDescriptor, levels int) error {
	switch field.Kind() {
	case protoreflect.StringKind:
		if err := g.Charge(16 + len(content)); err != nil {
			return err
		}
		g.unclean = g.unclean || !isClean(content, field)
	case protoreflect.MessageKind:
		return g.walk(content, field.Message(), levels-1)
	default: // bytes, or a packed list: a number takes at least one byte there, and up to 8 in memory
		return g.Charge(8 * len(content))
	}
	return nil
}
