package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

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
	// maxDecoded bounds the estimated memory of a message, in bytes; of an inventory it is all that
	// the core stores of the backend's devices. With four backends at this bound the agent stays
	// below 512 MiB (section memory of test/bench): of a backend that changes all the time up to
	// four inventories are in memory. 4,096 devices with 20 attributes and 16 links each take four
	// fifths of it. Without a bound, 8 MiB of empty messages would take a gigabyte.
	maxDecoded = backendplugin.MaxMessageMemory
	// maxNesting is more levels of messages than the contract has.
	maxNesting = 16
	// invalidByte replaces each byte of a text that is not valid UTF-8. It is DEL, a control
	// character, so that the checks of the text refuse it.
	invalidByte = 0x7f
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
	// before is the latest report of the stream, or nil.
	before *inventory.Report
	// size is the message's length on the wire, in bytes.
	size int
}

// guardedCodec is gRPC's codec for protobuf with two checks before a message of a backend is
// decoded:
//   - A message that is small on the wire and large in memory is refused.
//   - In texts, bytes that are not valid UTF-8 are replaced by DEL. Protobuf would refuse
//     the whole message; now the check of the text costs one device, or one metric.
type guardedCodec struct{ encoding.CodecV2 }

func newGuardedCodec() guardedCodec { return guardedCodec{encoding.GetCodecV2(grpcproto.Name)} }

// brokenMessage begins the error about a message that breaks the contract. gRPC keeps only
// the text of a codec's error, so the text identifies it.
const brokenMessage = "it sent a message that breaks the contract: "

// broken returns what the codec reported in the text of a call's error; "" if the error is
// about something else.
func broken(text string) string {
	if _, after, ok := strings.Cut(text, brokenMessage); ok {
		return brokenMessage + after
	}
	return ""
}

// Unmarshal checks and decodes a message; of an inventory, the devices stay encoded. Unknown
// fields are dropped.
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

// guard walks through one encoded message. It implements [inventory.Guard].
type guard struct {
	// memory is what is left of maxDecoded.
	memory int
	// invalid is set when a text is not valid UTF-8; with repair, the text is changed.
	invalid, repair bool
}

// Check returns the message, or a repaired copy if a text in it is not valid UTF-8.
func (g *guard) Check(wire []byte, of protoreflect.MessageDescriptor) ([]byte, int, error) {
	before := g.memory
	err := g.walk(wire, of, maxNesting)
	used := before - g.memory
	if err == nil && g.invalid {
		wire = bytes.Clone(wire) // the buffer is gRPC's
		g.memory, g.repair = before, true
		err = g.walk(wire, of, maxNesting)
		g.invalid, g.repair = false, false
	}
	return wire, used, err
}

// Charge subtracts memory from what is left.
func (g *guard) Charge(memory int) error {
	if g.memory -= memory; g.memory < 0 {
		return errTooMuch
	}
	return nil
}

// costs are estimates of the memory of a message, in bytes, without its texts and lists. Devices are
// decoded one by one, so what counts is what the core stores of them; an attribute counts as the entry
// of its name. A sample is decoded as a whole while the one before is stored and shown.
var costs = map[protoreflect.FullName]int{
	nameOf(&backendv1.Device{}): 512, nameOf(&backendv1.Attribute{}): 0, nameOf(&backendv1.Link{}): 64,
	nameOf(&backendv1.Metric{}): 832, nameOf(&backendv1.Metric{}) + ".LabelsEntry": 384,
}

func nameOf(m proto.Message) protoreflect.FullName { return m.ProtoReflect().Descriptor().FullName() }

// cost returns the estimate for a type of messages.
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
		case field == nil: // stays in the stored text of a device
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

// field checks a text, or a message in the message.
func (g *guard) field(content []byte, field protoreflect.FieldDescriptor, levels int) error {
	switch field.Kind() {
	case protoreflect.StringKind:
		if err := g.Charge(16 + len(content)); err != nil {
			return err
		}
		if !utf8.Valid(content) {
			g.invalid = true
			if g.repair {
				repair(content)
			}
		}
	case protoreflect.MessageKind:
		return g.walk(content, field.Message(), levels-1)
	default: // bytes, or a list of numbers, which have one byte at least
		return g.Charge(8 * len(content))
	}
	return nil
}

// repair replaces the invalid bytes of a text in place.
func repair(text []byte) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			text[0] = invalidByte
		}
		text = text[n:]
	}
}
