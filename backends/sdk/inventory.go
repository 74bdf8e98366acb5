package sdk

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// inventory is what was published once. It never changes; nil stands for none yet.
type inventory struct {
	*backendv1.Inventory
	// err is why the inventory cannot be sent; it counts as a generation, too.
	err error
}

// number is the generation; 0 of none.
func (i *inventory) number() uint64 {
	if i == nil {
		return 0
	}
	return i.GetGeneration()
}

// event is the message to send, or the status that ends the stream.
func (i *inventory) event() (*backendv1.WatchResponse, error) {
	if i.err != nil {
		return nil, status.Error(codes.Internal, clip(i.err.Error(), maxMessage))
	}
	event := &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: i.Inventory}}
	if size := proto.Size(event); size > backendplugin.MaxMessageSize {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the inventory of %d devices is %d bytes long; at most %d can be sent", len(i.GetDevices()), size, backendplugin.MaxMessageSize)
	}
	return event, nil
}

// encodable returns an error that names the first device that protobuf cannot encode: one
// with text that is not valid UTF-8.
func encodable(devices []*Device) error {
	var scratch []byte
	for _, d := range devices {
		var err error
		if scratch, err = (proto.MarshalOptions{}).MarshalAppend(scratch[:0], d); err != nil {
			return fmt.Errorf("device %q cannot be encoded for the core: %w", clip(d.GetId(), maxAttribute), err)
		}
	}
	return nil
}
