package supervisor

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxParts is how many messages a message of a backend's may have in it, such as
	// devices, links, metrics and labels. The contract's greatest sample has 590,000
	// and its greatest inventory fewer. Without a bound, 16 MiB of empty ones would
	// become a gigabyte of memory.
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

// Unmarshal reads a message of at most maxParts parts.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, into any) error {
	// Each part has two bytes at least.
	if message, ok := into.(proto.Message); ok && data.Len() > 2*maxParts {
		wire := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer wire.Free()
		parts := maxParts
		if err := countParts(wire.ReadOnlyData(), message.ProtoReflect().Descriptor(), &parts, maxNesting); err != nil {
			return err
		}
	}
	return c.CodecV2.Unmarshal(data, into)
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
