package sdktest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Server is a backend's service, an sdk.Server.
type Server interface {
	Watch(*backendv1.WatchRequest, grpc.ServerStreamingServer[backendv1.WatchResponse]) error
	Close(context.Context) error
}

// Watched is the client of a backend's Watch stream. It is for one goroutine.
type Watched struct {
	// Events are those of the stream, which waits until they are received.
	Events chan *backendv1.WatchResponse
	// Last is the latest inventory.
	Last *backendv1.Inventory
	// Check is called with the devices of each inventory; it may be nil.
	Check func([]*backendv1.Device)

	tb       testing.TB
	patience time.Duration
	ended    chan error
}

// Watch watches a configured backend until the test ends, and then closes it. Patience bounds
// the waits of a test.
func Watch(tb testing.TB, server Server, heartbeat, patience time.Duration) *Watched {
	tb.Helper()
	w := &Watched{Events: make(chan *backendv1.WatchResponse), tb: tb, patience: patience, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	go func() {
		w.ended <- server.Watch(&backendv1.WatchRequest{HeartbeatInterval: durationpb.New(heartbeat)}, NewStream(ctx, w.Events))
	}()
	tb.Cleanup(func() {
		cancel()
		if err := <-w.ended; err == nil {
			tb.Error("the stream ended without an error, though it was cancelled")
		}
		if err := server.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return w
}

// Until waits for an inventory for which want is true, and returns it.
func (w *Watched) Until(what string, want func(*backendv1.Inventory) bool) *backendv1.Inventory {
	w.tb.Helper()
	late := time.After(w.patience)
	for {
		select {
		case e := <-w.Events:
			if w.saw(e) && want(w.Last) {
				return w.Last
			}
		case err := <-w.ended:
			w.ended <- err
			w.tb.Fatalf("the stream ended while waiting for %s: %v", what, err)
		case <-late:
			w.tb.Fatalf("waited %s for %s; last inventory: %v, problems %q", w.patience, what, Summary(w.Last), w.Last.GetProblems())
		}
	}
}

// During receives the stream's events while f runs, and returns the inventories.
func (w *Watched) During(f func()) []*backendv1.Inventory {
	w.tb.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	var all []*backendv1.Inventory
	late := time.After(w.patience)
	for {
		select {
		case e := <-w.Events:
			if w.saw(e) {
				all = append(all, w.Last)
			}
		case <-done:
			return all
		case <-late:
			w.tb.Fatalf("waited %s for what does not end", w.patience)
		}
	}
}

// saw records an event, and reports whether it has an inventory.
func (w *Watched) saw(e *backendv1.WatchResponse) bool {
	inv := e.GetInventory()
	if inv != nil {
		w.Last = inv
		if w.Check != nil {
			w.Check(inv.GetDevices())
		}
	}
	return inv != nil
}

// Summary returns the health of an inventory's devices as texts, by ID.
func Summary(inv *backendv1.Inventory) map[string]string {
	all := map[string]string{}
	for _, d := range inv.GetDevices() {
		h := d.GetHealth()
		all[d.GetId()] = h.GetState().String() + " " + h.GetCode() + " " + h.GetMessage()
	}
	return all
}
