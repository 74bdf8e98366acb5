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
)

const (
	// maxDecoded bounds the estimated memory of a decoded message, in bytes. The estimate
	// for the greatest sample of the contract (65,536 metrics with 8 labels each) is two thirds
	// of it. Without a bound, 8 MiB of empty messages would take a gigabyte.
	maxDecoded = 128 << 20
	// maxNesting is more levels of messages than the contract has.
	maxNesting = 16
	// invalidByte replaces each byte of a text that is not valid UTF-8. It is DEL, a control
	// character, so that the checks of the text refuse it.
	invalidByte = 0x7f
)

var (
	errTooManyParts = fmt.Errorf("the message has so many parts that it would take more than %d MiB of memory", maxDecoded>>20)
	errNesting      = fmt.Errorf("the message is nested more than %d levels deep", maxNesting)
	errMalformed    = errors.New("the message is no valid protobuf")
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
		if wire, err = g.check(buffer.ReadOnlyData(), into.ProtoReflect().Descriptor()); err == nil {
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
	return inventory.SplitReport(encoded, before, g.check)
}

// guard walks through one encoded message.
type guard struct {
	// memory is what is left of maxDecoded.
	memory int
	// invalid is set when a text is not valid UTF-8; with repair, the text is changed.
	invalid, repair bool
}

// check returns the message, or a repaired copy if a text in it is not valid UTF-8.
func (g *guard) check(wire []byte, of protoreflect.MessageDescriptor) ([]byte, error) {
	memory := g.memory
	err := g.walk(wire, of, maxNesting)
	if err == nil && g.invalid {
		wire = bytes.Clone(wire) // the buffer is gRPC's
		g.memory, g.repair = memory, true
		err = g.walk(wire, of, maxNesting)
		g.invalid, g.repair = false, false
	}
	return wire, err
}

func (g *guard) walk(wire []byte, of protoreflect.MessageDescriptor, levels int) error {
	if levels == 0 {
		return errNesting
	}
	fields := of.Fields()
	// protoc-gen-go's structs have some 50 bytes of their own and at most 24 a field.
	if g.memory -= 64 + 16*fields.Len(); g.memory < 0 {
		return errTooManyParts
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
		if kind == protowire.BytesType {
			if field := fields.ByNumber(number); field != nil {
				content, _ := protowire.ConsumeBytes(wire)
				if err := g.field(content, field, levels); err != nil {
					return err
				}
			}
		}
		wire = wire[n:]
	}
	return nil
}

// field checks a text, or a message in the message.
func (g *guard) field(content []byte, field protoreflect.FieldDescriptor, levels int) error {
	switch field.Kind() {
	case protoreflect.StringKind:
		// A string has 16 bytes of its own; of those in a list the slice grows by copies.
		size := 16 + len(content)
		if field.IsList() {
			size += 32
		}
		if g.memory -= size; g.memory < 0 {
			return errTooManyParts
		}
		if !utf8.Valid(content) {
			g.invalid = true
			if g.repair {
				repair(content)
			}
		}
	case protoreflect.MessageKind:
		return g.walk(content, field.Message(), levels-1)
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
