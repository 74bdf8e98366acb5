package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// every returns a constant interval for Poll.
func every(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// Verifies that Poll calls interval before each wait: a change by settings has effect at once,
// because they cause a scan.
func TestPollIntervalChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var interval atomic.Int64
		_, lists, out := startPoll(t, func() time.Duration { return time.Duration(interval.Load()) }, nil)
		for _, step := range []struct {
			set   time.Duration
			lists int32 // in the minute that follows, with that of the change itself
		}{{0, 6}, {time.Second, 60}, {time.Minute, 1}, {-time.Second, 6}} {
			interval.Store(int64(step.set))
			before := lists.Load()
			out.accept(uint64(step.lists))
			<-time.After(time.Minute - time.Millisecond)
			if got := lists.Load() - before; got != step.lists {
				t.Errorf("interval %s: %d lists in a minute, want %d", step.set, got, step.lists)
			}
		}
	})
}

// Verifies that Scan causes one list at once, and one more if it is called while a list is in
// progress, which may have read the hardware before it changed. Without a loop it does nothing.
func TestScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		(*Reporter)(nil).Scan()
		hold := make(chan struct{})
		began, lists, out := startPoll(t, every(time.Hour), hold)
		<-began // the first
		for range 3 {
			out.Scan()
		}
		synctest.Wait()
		if got := lists.Load(); got != 1 {
			t.Errorf("%d lists at the same time", got)
		}
		hold <- struct{}{}
		<-began // the second, for all three
		hold <- struct{}{}
		synctest.Wait()
		if got := lists.Load(); got != 2 {
			t.Errorf("%d lists after Scan was called during the first, want 2", got)
		}
		asked := time.Now()
		out.Scan()
		<-began
		if waited := time.Since(asked); waited != 0 {
			t.Errorf("the list came %s after Scan, want at once", waited)
		}
		hold <- struct{}{}
	})
}

// Verifies that a list that fails says nothing of the devices that it did not return: they could not be looked at, whether
// or not the process knew them.
func TestPollFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out := newReporter()
		lists, listed := []struct {
			ids []string
			err error
		}{
			{nil, errors.New("no bus")}, {[]string{"a", "b"}, nil}, {[]string{"a"}, errors.Join(errors.New("b is stuck"), errors.New("c, too"))}, {nil, errors.New("no \xff")}, {nil, nil},
		}, 0
		ended := make(chan error)
		go func() {
			ended <- Poll(ctx, out, every(time.Second), func(context.Context) (devices []*Device, err error) {
				now := lists[min(listed, len(lists)-1)]
				listed++
				for _, id := range now.ids {
					devices = append(devices, &Device{Id: id})
				}
				return devices, now.err
			})
		}()
		for _, want := range []string{"[] unread no bus", "[a b]", "[a] unread b is stuck; c, too", "[] unread no \uFFFD", "[]"} {
			synctest.Wait()
			newest, _, _ := out.state()
			wire, err := newest.decode()
			if err != nil {
				t.Fatal(err)
			}
			ids := []string{}
			for _, d := range wire.GetDevices() {
				ids = append(ids, d.GetId())
			}
			got := fmt.Sprint(ids)
			for _, u := range wire.GetUnread() {
				got += " unread " + u.GetDeviceId() + u.GetPciBusId() + u.GetReason()
			}
			if got != want || len(wire.GetProblems()) > 0 {
				t.Errorf("published is %s with the problems %q, want %s", got, wire.GetProblems(), want)
			}
			<-time.After(time.Second)
		}
		cancel()
		<-ended
	})
}

// startPoll runs Poll until the end of the test. Each list is counted. With hold it also sends
// to began, and waits until it receives from hold.
func startPoll(t *testing.T, interval func() time.Duration, hold chan struct{}) (began chan struct{}, lists *atomic.Int32, out *Reporter) {
	began, lists, out = make(chan struct{}), &atomic.Int32{}, newReporter()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Poll(ctx, out, interval, func(context.Context) ([]*Device, error) {
			lists.Add(1)
			if hold != nil {
				began <- struct{}{}
				<-hold
			}
			return nil, nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	if hold == nil {
		synctest.Wait()
	}
	return began, lists, out
}
