package deviceplugin

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Call is one of kubelet's calls that a pod depends on.
type Call string

// The calls.
const (
	CallAllocate Call = "Allocate"
	CallPreStart Call = "PreStartContainer"
)

// calls counts the calls in progress that a pod depends on. It is a stats handler, not an
// interceptor: the answer of a call is written after the last interceptor returns.
type calls struct {
	// answered is called after the answer of a call was written.
	answered func(call Call, took time.Duration, err error)

	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count becomes 0; nil if no drain waits
}

// countedCall is the context key of the Call.
type countedCall struct{}

// TagRPC puts the Call into the context of those that are counted.
func (c *calls) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	switch info.FullMethodName {
	case pluginapi.DevicePlugin_Allocate_FullMethodName:
		return context.WithValue(ctx, countedCall{}, CallAllocate)
	case pluginapi.DevicePlugin_PreStartContainer_FullMethodName:
		return context.WithValue(ctx, countedCall{}, CallPreStart)
	}
	return ctx
}

// HandleRPC counts the beginning and the end of a call.
func (c *calls) HandleRPC(ctx context.Context, event stats.RPCStats) {
	call, ok := ctx.Value(countedCall{}).(Call)
	if !ok {
		return
	}
	switch event := event.(type) {
	case *stats.Begin:
		c.add(1)
	case *stats.End:
		c.add(-1)
		c.answered(call, event.EndTime.Sub(event.BeginTime), event.Error)
	}
}

// TagConn does nothing.
func (c *calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (c *calls) HandleConn(context.Context, stats.ConnStats) {}

func (c *calls) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count += n
	if c.count == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// drain waits until no call is in progress, or ctx ends.
func (c *calls) drain(ctx context.Context) {
	c.mu.Lock()
	if c.count == 0 {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
