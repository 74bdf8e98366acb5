package sdk

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// stream is a Watch stream and its other end.
type stream struct {
	*sdktest.Stream
	events chan *backendv1.WatchResponse
}

// watch opens a stream; the channel receives the error with which it ends.
func watch(t *testing.T, s *Server, heartbeat time.Duration) (*stream, context.CancelFunc, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan *backendv1.WatchResponse)
	st := &stream{sdktest.NewStream(ctx, events), events}
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(&backendv1.WatchRequest{HeartbeatInterval: durationpb.New(heartbeat)}, st)
	}()
	return st, cancel, ended
}

func newServer(t *testing.T, b Backend) *Server {
	t.Helper()
	s, err := NewServer(b, newLogger(t.Output()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeServer(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// Heartbeats are sent exactly as long as the backend's own loop runs.
func TestHeartbeatStopsWhenTheLoopWedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wedge := make(chan struct{})
		var wedged atomic.Bool
		s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
			return Poll(ctx, out, every(time.Hour), func(ctx context.Context) ([]*Device, error) {
				if wedged.Load() {
					<-wedge // a driver that does not return
				}
				return manyDevices(1), nil
			})
		}})
		st, cancel, ended := watch(t, s, time.Second)
		if e := <-st.events; e.GetInventory().GetGeneration() != 1 {
			t.Fatalf("first event %v", e)
		}
		for range 10 {
			began := time.Now()
			e := <-st.events
			if e.GetHeartbeat() == nil || time.Since(began) > time.Second {
				t.Fatalf("%v after %s, want a heartbeat within a second", e, time.Since(began))
			}
		}

		wedged.Store(true)
		s.reporter.kick()
		synctest.Wait()
		silence := time.After(time.Minute)
		beats := 0
		for quiet := false; !quiet; {
			select {
			case <-st.events:
				beats++
			case <-silence:
				quiet = true
			}
		}
		if beats > 1 { // one may have been in progress
			t.Errorf("%d heartbeats while the loop was stuck", beats)
		}

		close(wedge)
		<-st.events
		cancel()
		<-ended
		closeServer(t, s)
	})
}

// A loop that beats often does not flood the core.
func TestHeartbeatsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				out.Beat()
				<-tick.C
			}
			return nil
		}})
		st, cancel, ended := watch(t, s, time.Second)
		n, end := 0, time.After(10*time.Second)
		for done := false; !done; {
			select {
			case <-st.events:
				n++
			case <-end:
				done = true
			}
		}
		if n < 30 || n > 45 {
			t.Errorf("%d heartbeats in 10 intervals, want about 40", n)
		}
		cancel()
		<-ended
		closeServer(t, s)
	})
}

// A slow reader misses intermediate inventories and delays no other; a new stream gets the
// newest at once, and generations continue.
func TestPublishCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		publish := make(chan int)
		s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
			for {
				select {
				case n := <-publish:
					out.Publish(manyDevices(n))
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}})
		st, cancel, ended := watch(t, s, time.Minute)
		for n := range 100 {
			publish <- n // does not wait for the reader, who has read nothing yet
		}
		synctest.Wait()
		first, second := (<-st.events).GetInventory(), (<-st.events).GetInventory()
		if first.GetGeneration() >= second.GetGeneration() || second.GetGeneration() != 100 || len(second.GetDevices()) != 99 {
			t.Errorf("generations %d and %d with %d devices, want one early and the last",
				first.GetGeneration(), second.GetGeneration(), len(second.GetDevices()))
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("the stream ended with %v", err)
		}

		st, cancel, ended = watch(t, s, time.Minute)
		if inv := (<-st.events).GetInventory(); inv.GetGeneration() != 100 {
			t.Errorf("the second stream began with generation %d, want 100", inv.GetGeneration())
		}
		publish <- 99 // an equal inventory is not sent
		publish <- 3
		for inv := (*backendv1.Inventory)(nil); inv.GetGeneration() != 101; {
			if inv = (<-st.events).GetInventory(); inv.GetGeneration() > 101 {
				t.Fatalf("generation %d for an inventory that did not change", inv.GetGeneration())
			}
		}
		cancel()
		<-ended
		closeServer(t, s)
	})
}

// A loop that publishes all the time sends no more than the core accepts, and always the newest:
// the core's inventory is never older than a pause. It is logged once a minute.
func TestPublishIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published atomic.Uint64
		s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				n := published.Add(1)
				out.Publish([]*Device{{Id: "a", Health: Healthy(), Attributes: map[string]*Attribute{"n": Int(int64(n))}}})
				<-tick.C
			}
			return ctx.Err()
		}})
		var log bytes.Buffer
		s.log = newLogger(&log)
		st, cancel, ended := watch(t, s, time.Minute)
		const lasts = 70 // seconds
		count, oldest, end := 0, uint64(0), time.After(lasts*time.Second)
		for done := false; !done; {
			select {
			case event := <-st.events:
				count++
				now := event.GetInventory().GetGeneration()
				oldest = max(oldest, published.Load()-now)
			case <-end:
				done = true
			}
		}
		const most = lasts*backendplugin.MessageRate + backendplugin.MessageBurst
		if count > most || count < most/2 {
			t.Errorf("%d messages in %d s, want most of the %d that the core takes and not more", count, lasts, most)
		}
		if oldest > 1 {
			t.Errorf("a message was %d inventories old, want the newest", oldest)
		}
		cancel()
		<-ended
		closeServer(t, s)
		if said := strings.Count(log.String(), "changes more often than it is sent"); said != 2 {
			t.Errorf("the log says %d times in %d s that there is too much, want 2:\n%s", said, lasts, log.String())
		}
	})
}

// The loop runs once, ends with the server, and is started again after an error.
func TestLoopLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
			if runs++; runs == 1 {
				return errors.New("not yet")
			}
			out.Publish(nil)
			<-ctx.Done()
			return ctx.Err()
		}})
		_, cancel, ended := watch(t, s, time.Second)
		if err := <-ended; !strings.Contains(err.Error(), "not yet") {
			t.Errorf("first stream: %v", err)
		}
		cancel()
		for range 3 {
			st, cancel, ended := watch(t, s, time.Second)
			<-st.events
			cancel()
			<-ended
		}
		if runs != 2 {
			t.Errorf("the loop ran %d times, want 2", runs)
		}
		closeServer(t, s)
		_, cancel, ended = watch(t, s, time.Second)
		defer cancel()
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("a stream after the end: %v", err)
		}
	})
}

func TestInventoryTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
			out.Publish([]*Device{{Id: strings.Repeat("x", 17<<20)}})
			<-ctx.Done()
			return ctx.Err()
		}})
		_, cancel, ended := watch(t, s, time.Second)
		defer cancel()
		if err := <-ended; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%v, want ResourceExhausted", err)
		}
		closeServer(t, s)
	})
}

// Poll publishes only changes, and lists again as soon as settings changed.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newReporter()
		d := &Device{Id: "a", Health: Healthy()}
		var mu sync.Mutex // guards the hardware
		var devices []*Device
		lists := 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- Poll(ctx, out, every(time.Minute), func(context.Context) ([]*Device, error) {
				mu.Lock()
				defer mu.Unlock()
				lists++
				return devices, nil
			})
		}()
		expect := func(what string, generation uint64, state backendv1.HealthState) {
			t.Helper()
			synctest.Wait()
			inv := newest(t, out)
			if inv.GetGeneration() != generation {
				t.Errorf("%s: %v, want generation %d", what, inv, generation)
			}
			if state != 0 && (len(inv.GetDevices()) != 1 || inv.GetDevices()[0].GetHealth().GetState() != state) {
				t.Errorf("%s: devices %v, want one that is %v", what, inv.GetDevices(), state)
			}
		}
		step := func(change func()) {
			mu.Lock()
			change()
			mu.Unlock()
			<-time.After(time.Minute) // of the bubble's clock
		}
		expect("start", 1, 0)
		step(func() { devices = []*Device{d} })
		expect("a device", 2, backendv1.HealthState_HEALTH_STATE_HEALTHY)
		step(func() {})
		expect("no change", 2, backendv1.HealthState_HEALTH_STATE_HEALTHY)
		step(func() { d.Health = Fault("hot", RecoverySelf, "") }) // in place
		expect("a fault", 3, backendv1.HealthState_HEALTH_STATE_UNHEALTHY)
		mu.Lock()
		d.Health = Healthy()
		mu.Unlock()
		out.kick()
		expect("new settings", 4, backendv1.HealthState_HEALTH_STATE_HEALTHY)
		if lists != 5 {
			t.Errorf("%d lists, want 5", lists)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Poll ended with %v", err)
		}
	})
}
