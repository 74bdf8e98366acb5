package sdk

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Inventory is everything that a backend knows.
type Inventory struct {
	// Devices are in a stable order.
	Devices []*Device
	// CounterSets are what the devices consume parts of.
	CounterSets []*CounterSet
	// Problems are about hardware that could not be listed; up to 64.
	Problems []string
}

// carried leaves out devices that CDI cannot carry into a container, each with a problem.
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

func onlyJoined(e *Edits) bool {
	return len(e.GetEnv()) > 0 && len(e.GetEnv()) == len(e.GetEnvSeparators()) &&
		len(e.GetDeviceNodes())+len(e.GetMounts())+len(e.GetHooks())+len(e.GetAdditionalGids()) == 0
}

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
