package plug

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Message is a message of a Watch stream, or the error that ended it. Report is the inventory; nil for a heartbeat.
type Message struct {
	Report *inventory.Report
	Err    error
}

// Stream is a Watch stream, which is read at a bounded rate. The next message is read only after the previous one was
// received, so that there is one at a time.
type Stream struct {
	Messages <-chan Message

	next func() (received, error)
	to   chan<- Message
	// late is called for each message that is delayed.
	late    func()
	delayed atomic.Bool
}

// Watch opens the Watch stream of a process, until ctx ends.
func (p *Process) Watch(ctx context.Context, heartbeat time.Duration) (*Stream, error) {
	stream, err := p.Service.Watch(ctx, &backendv1.WatchRequest{HeartbeatInterval: durationpb.New(heartbeat)})
	if err != nil {
		return nil, err
	}
	messages := make(chan Message)
	var before *inventory.Report
	s := &Stream{
		Messages: messages, to: messages,
		next: func() (received, error) {
			r := received{before: before}
			err := stream.RecvMsg(&r)
			if r.report != nil {
				before = r.report
			}
			return r, err
		},
		late: func() {
			if p.delayed.add(1) {
				p.log.Warn("the backend sends updates faster than the limit and is slowed down", "per_second", backendplugin.MessageRate, "bytes_per_second", backendplugin.MessageRate*backendplugin.MessageBytes)
			}
		},
	}
	go s.run(ctx)
	return s, nil
}

// Delayed reports whether a message has arrived and is delayed.
func (s *Stream) Delayed() bool { return s.delayed.Load() }

func (s *Stream) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	const least = backendplugin.MessageBytes
	budget := rate.NewLimiter(backendplugin.MessageRate*least, backendplugin.MessageBurst*least)
	for {
		response, err := s.next()
		var wait time.Duration
		if err == nil {
			wait = budget.ReserveN(time.Now(), least+response.size).Delay()
		}
		if wait > 0 {
			s.delayed.Store(true)
			s.late()
			pause.Reset(wait)
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case s.to <- Message{response.report, err}:
		case <-ctx.Done():
			return
		}
		s.delayed.Store(false)
		if err != nil {
			return
		}
	}
}
