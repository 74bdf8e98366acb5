package sdk

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// steadyCodec is gRPC's codec for protobuf, but encodes what is the same the same way:
// the core looks at those devices of an inventory whose bytes are new.
type steadyCodec struct{ encoding.CodecV2 }

func newSteadyCodec() steadyCodec { return steadyCodec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal sorts what protobuf has no order for.
func (c steadyCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	if event, ok := v.(*backendv1.WatchResponse); ok && event.GetEvent() == nil {
		// An inventory that is encoded already. It never changes, so it is not copied.
		if data := event.ProtoReflect().GetUnknown(); len(data) > 0 {
			return mem.BufferSlice{mem.SliceBuffer(data)}, nil
		}
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode for the core: %w", err)
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}
