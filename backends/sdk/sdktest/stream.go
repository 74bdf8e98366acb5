// Package sdktest has helpers for tests of backends.
package sdktest

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Stream is a Watch stream whose client reads at the test's speed. Only Context and Send may be
// called.
type Stream struct {
	grpc.ServerStream
	ctx    context.Context
	events chan<- *backendv1.WatchResponse
}

// NewStream returns a stream that ends with ctx. Send waits until there is room in events.
func NewStream(ctx context.Context, events chan<- *backendv1.WatchResponse) *Stream {
	return &Stream{ctx: ctx, events: events}
}

// Context implements grpc.ServerStream.
func (s *Stream) Context() context.Context { return s.ctx }

// Send sends an event to the client, encoded and decoded as over a socket; it fails when the
// stream's context ends.
func (s *Stream) Send(sent *backendv1.WatchResponse) error {
	data, err := proto.Marshal(sent)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	e := &backendv1.WatchResponse{}
	if err := proto.Unmarshal(data, e); err != nil {
		return fmt.Errorf("decode an event: %w", err)
	}
	select {
	case s.events <- e:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
