package sdk

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// newest returns the newest inventory of a reporter.
func newest(t *testing.T, out *Reporter) *backendv1.Inventory {
	t.Helper()
	inv, _, _ := out.state()
	if inv == nil || inv.err != nil {
		t.Fatalf("%+v, want an inventory", inv)
	}
	wire, err := inv.decode()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// Verifies that the inventory is what was published, and that it has another generation exactly
// if something in it changed.
func TestPublish(t *testing.T) {
	four := func(change func([]*Device) []*Device) func() []*Device {
		return func() []*Device { return change(manyDevices(4)) }
	}
	same := func(d []*Device) []*Device { return d }
	steps := []struct {
		what     string
		devices  func() []*Device
		problems []string
		revision uint64
		changed  bool
	}{
		{"nothing yet", four(func([]*Device) []*Device { return nil }), nil, 0, true},
		{"nothing again", four(func([]*Device) []*Device { return nil }), nil, 0, false},
		{"devices", four(same), nil, 0, true},
		{"the same", four(same), nil, 0, false},
		{"a fault in the middle", four(func(d []*Device) []*Device { d[1].Health = Fault("hot", RecoverySelf, "too hot"); return d }), nil, 0, true},
		{"healthy again", four(same), nil, 0, true},
		{"a problem", four(same), []string{"a card did not answer"}, 0, true},
		{"the same problem", four(same), []string{"a card did not answer"}, 0, false},
		{"another one", four(same), []string{"a card did not answer", strings.Repeat("m", 5000)}, 0, true},
		{"no problem", four(same), nil, 0, true},
		{"another order", four(func(d []*Device) []*Device { d[0], d[3] = d[3], d[0]; return d }), nil, 0, true},
		{"one less", four(func(d []*Device) []*Device { return d[:3] }), nil, 0, true},
		{"one less at the end", four(func(d []*Device) []*Device { return d[:2] }), nil, 0, true},
		{"new settings", four(func(d []*Device) []*Device { return d[:2] }), nil, 300, true},
		{"settings as before", four(func(d []*Device) []*Device { return d[:2] }), nil, 300, false},
		{"much more", func() []*Device { return manyDevices(300) }, nil, 300, true},
		{"no device", four(func([]*Device) []*Device { return nil }), nil, 300, true},
		{"an empty one", func() []*Device { return []*Device{nil} }, nil, 300, true},
	}
	out, generation := newReporter(), uint64(0)
	for _, s := range steps {
		if s.revision != out.accepted {
			out.accept(s.revision)
			<-out.Reconfigured()
		}
		if s.changed {
			generation++
		}
		devices := s.devices()
		out.Publish(devices, s.problems...)
		for _, d := range devices { // it has its own copy
			if d != nil {
				d.Class = "changed by its owner"
			}
		}
		want := &backendv1.Inventory{Generation: generation, Devices: s.devices(), SettingsRevision: s.revision}
		for _, p := range s.problems {
			want.Problems = append(want.Problems, clip(p, maxMessage))
		}
		if got := newest(t, out); !proto.Equal(got, proto.CloneOf(want)) {
			t.Errorf("%s: %v, want %v", s.what, got, want)
		}
	}
}

// Invalid UTF-8 cannot be sent. The stream's error names the device, and the stream continues once the text is valid, or
// the devices cannot be listed.
func TestPublishNoUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, listed := make(chan []*Device), make(chan struct{})
		s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
			return Poll(ctx, out, every(time.Second), func(ctx context.Context) ([]*Device, error) {
				select {
				case d := <-list:
					defer func() { go func() { listed <- struct{}{} }() }()
					if d == nil {
						return nil, errors.New("no driver")
					}
					return d, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
		}})
		bad := manyDevices(3)
		bad[1].PciBusId = "\xff"
		_, cancel, ended := watch(t, s, time.Minute)
		list <- bad
		<-listed
		if err := <-ended; status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "device-1") {
			t.Errorf("%v, want an error about device-1", err)
		}
		cancel()
		for i, devices := range [][]*Device{nil, manyDevices(2)} {
			list <- devices
			<-listed
			synctest.Wait()
			st, cancel, ended := watch(t, s, time.Minute)
			inv := (<-st.events).GetInventory()
			if len(inv.GetDevices()) != len(devices) || len(inv.GetUnread()) != 1-i || inv.GetGeneration() != uint64(2+i) {
				t.Errorf("%v, want generation %d with %d devices", inv, 2+i, len(devices))
			}
			cancel()
			<-ended
		}
		closeServer(t, s)
	})
}

// Verifies that immutable devices are encoded once, that another device under the same ID is a
// change, and that removed devices are dropped from the cache.
func TestPublishImmutable(t *testing.T) {
	out := newReporter()
	devices := manyDevices(4)
	publish := func(devices []*Device) *backendv1.Inventory {
		out.PublishInventory(Inventory{Devices: devices, Immutable: true})
		return newest(t, out)
	}
	first := publish(devices)
	devices[1].Class = "changed against the promise"
	if again := publish(devices); again.GetGeneration() != 1 || !proto.Equal(again, first) {
		t.Errorf("devices were encoded again: %v", again)
	}
	changed := slices.Clone(devices)
	changed[2] = proto.CloneOf(devices[2])
	changed[2].Health = Fault("x", 1, "y")
	if next := publish(changed); next.GetGeneration() != 2 || next.GetDevices()[2].GetHealth().GetCode() != "x" {
		t.Errorf("got %v, want the fault", next)
	}
	for range 4 {
		publish(manyDevices(3))
	}
	if n := len(out.encoded); n > 9 {
		t.Errorf("%d encoded devices are stored for 3", n)
	}
	out.Publish(devices)
	if got := newest(t, out).GetDevices()[1].GetClass(); got != devices[1].Class || out.encoded != nil {
		t.Errorf("without the promise the class is %q", got)
	}
}
