package sdk

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// The bounds of WatchRequest.heartbeat_interval.
const (
	minHeartbeat = 100 * time.Millisecond
	maxHeartbeat = time.Minute
)

// Watch implements the contract. The stream sends the newest inventory at once and after
// every change, and one heartbeat for any number of beats, at most four in an interval. If
// the loop publishes more often than the core takes, the stream waits and then sends the
// newest.
func (s *Server) Watch(req *backendv1.WatchRequest, stream backendv1.BackendService_WatchServer) error {
	heartbeat := backendplugin.DefaultHeartbeat
	if req.GetHeartbeatInterval() != nil {
		heartbeat = min(max(req.GetHeartbeatInterval().AsDuration(), minHeartbeat), maxHeartbeat)
	}
	l, err := s.turn(heartbeat)
	if err != nil {
		return err
	}
	ctx := stream.Context()
	var sent *inventory  // the core's newest inventory
	var sentBeats uint64 // the beats that the last message covers
	var last time.Time   // of the last message
	pace := newPace(s.log)
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		newest, beats, changed := s.reporter.state()
		pause := pace.pause()
		var event *backendv1.WatchResponse
		var between uint64
		switch {
		case pause > 0:
		case newest.number() > sent.number():
			if event, err = newest.event(); err != nil {
				return err
			}
			between = newest.number() - sent.number() - 1
			sent = newest
		case beats > sentBeats && time.Since(last) >= heartbeat/4:
			event = &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Heartbeat{Heartbeat: &backendv1.Heartbeat{}}}
		}
		if event != nil {
			sentBeats, last = beats, time.Now()
			if err := stream.Send(event); err != nil {
				return fmt.Errorf("send to the core: %w", err)
			}
			pace.sent(event, between)
			continue
		}
		wait.Stop()
		switch {
		case pause > 0:
			changed = nil // there may be a newer one by then
			wait.Reset(pause)
		case beats > sentBeats:
			wait.Reset(heartbeat/4 - time.Since(last))
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.ctx.Done():
			return errEnding
		case <-l.done:
			return status.Error(codes.Internal, clip(l.err.Error(), maxMessage))
		case <-changed:
		case <-wait.C:
		}
	}
}

// turn starts the loop unless it runs, and returns it.
func (s *Server) turn(heartbeat time.Duration) (*loop, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errEnding
	}
	if _, ok := s.backend.(Configurer); ok && !s.configured {
		return nil, status.Error(codes.FailedPrecondition, "Watch before any settings were accepted: call Configure first")
	}
	s.reporter.setHeartbeat(heartbeat)
	if s.loop != nil {
		select {
		case <-s.loop.done:
		default:
			return s.loop, nil
		}
	}
	select { // settings from before the loop's start are no event for it
	case <-s.reporter.reconfigured:
	default:
	}
	s.loop = &loop{done: make(chan struct{})}
	go s.run(s.loop)
	return s.loop, nil
}

// run is the goroutine of one loop.
func (s *Server) run(l *loop) {
	defer close(l.done)
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("the backend panicked in its loop; the process ends", "panic", fmt.Sprint(p), "stack", stack())
			l.err = fmt.Errorf("the backend panicked in its loop: %v", p)
			close(s.dead)
		}
	}()
	err := s.backend.Watch(s.ctx, s.reporter)
	if err == nil {
		err = errors.New("the backend's loop ended on its own")
	}
	if s.ctx.Err() == nil {
		s.log.Error("the backend's loop ended; the next stream starts it again", "error", err)
	}
	l.err = err
}
