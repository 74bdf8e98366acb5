package sdk

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// reader is the core's end of a stream that takes changes: what it makes of what is sent.
type reader struct {
	sent      *inventory
	inventory *backendv1.Inventory
	changes   int // how often it was sent changes
}

// read takes what a stream would send now.
func (r *reader) read(t *testing.T, out *Reporter) {
	t.Helper()
	newest, _, _ := out.state()
	if newest.number() == r.sent.number() {
		return
	}
	event, err := newest.after(r.sent, true)
	if err != nil {
		t.Fatal(err)
	}
	data := event.ProtoReflect().GetUnknown()
	e := &backendv1.WatchResponse{}
	if err := proto.Unmarshal(data, e); err != nil {
		t.Fatal(err)
	}
	if again, err := steady.Marshal(e); err != nil || !bytes.Equal(again, data) {
		t.Fatalf("protobuf encodes %q, %v, want %q", again, err, data)
	}
	r.sent = newest
	if e.GetChanges() == nil {
		r.inventory = e.GetInventory()
		return
	}
	r.changes++
	r.apply(t, e.GetChanges())
}

// apply is what the contract says of changes.
func (r *reader) apply(t *testing.T, c *backendv1.Changes) {
	t.Helper()
	if c.GetBase() != r.inventory.GetGeneration() || c.GetGeneration() <= c.GetBase() {
		t.Fatalf("generation %d with base %d comes after %d", c.GetGeneration(), c.GetBase(), r.inventory.GetGeneration())
	}
	if n, all := len(c.GetDevices()), len(r.inventory.GetDevices()); n > all/4+1 {
		t.Errorf("changes of %d of %d devices, where the whole inventory is less work", n, all)
	}
	seen := map[string]bool{}
	for _, d := range c.GetDevices() {
		i := slices.IndexFunc(r.inventory.GetDevices(), func(o *Device) bool { return o.GetId() == d.GetId() })
		if i < 0 || seen[d.GetId()] {
			t.Fatalf("changes of %q, which is not there or comes twice", d.GetId())
		}
		seen[d.GetId()] = true
		r.inventory.Devices[i] = d
	}
	r.inventory.Generation, r.inventory.Problems, r.inventory.SettingsRevision = c.GetGeneration(), c.GetProblems(), c.GetSettingsRevision()
}

// Verifies that whoever reads a stream, often or seldom, makes the same of it, whatever
// comes by whole inventories and by changes, and that the same is no news.
func TestChangesAreTheWhole(t *testing.T) {
	changes := 0
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 0))
		out, devices, problems := newReporter(), manyDevices(1+random.IntN(200)), []string(nil)
		out.Publish(devices)
		often, seldom := &reader{}, &reader{}
		for step := range 100 {
			whole := alter(t, random, out, &devices, &problems)
			if whole {
				out.Publish(devices, problems...)
			}
			before := newest(t, out)
			out.Publish(devices, problems...)
			if now := newest(t, out); now != before {
				t.Fatalf("seed %d, step %d: the same published again is generation %d after %d", seed, step, now.generation, before.generation)
			}
			often.read(t, out)
			readers := []*reader{often}
			if random.IntN(5) == 0 {
				seldom.read(t, out)
				readers = append(readers, seldom)
			}
			want := &backendv1.Inventory{Generation: before.generation, Devices: devices, Problems: problems, SettingsRevision: out.applied}
			for _, r := range readers {
				if !proto.Equal(r.inventory, want) {
					t.Fatalf("seed %d, step %d: a reader has\n%v\nwant\n%v", seed, step, r.inventory, want)
				}
			}
		}
		changes += often.changes + seldom.changes
	}
	if changes < 500 {
		t.Errorf("only %d times changes were sent", changes)
	}
}

// alter makes something else of devices; whole says that it has to be published.
func alter(t *testing.T, random *rand.Rand, out *Reporter, devices *[]*Device, problems *[]string) (whole bool) {
	t.Helper()
	all := slices.Clone(*devices)
	*devices = all
	n := random.IntN(len(all))
	first := func(id string) int {
		return slices.IndexFunc(all, func(d *Device) bool { return d.GetId() == id })
	}
	var changed []*Device
	for range 1 + random.IntN(3) {
		d := proto.CloneOf(all[random.IntN(len(all))])
		d.Health = Fault("x", RecoverySelf, strings.Repeat("m", random.IntN(300)))
		if !slices.ContainsFunc(changed, func(o *Device) bool { return o.GetId() == d.GetId() }) {
			changed = append(changed, d)
		}
	}
	switch random.IntN(20) {
	case 0:
		all[n], all[0] = all[0], all[n]
	case 1:
		*devices = slices.Delete(all, n, min(n+1, len(all)-1))
	case 2:
		*devices = append(all, &Device{Id: fmt.Sprint("more-", random.IntN(50))})
	case 3:
		all[n] = &Device{Id: all[0].GetId()}
	case 4:
		*problems = []string{fmt.Sprint("problem ", random.IntN(3))}
	case 5:
		out.accept(out.accepted + 1)
		<-out.Reconfigured()
	case 6:
		all[n] = &Device{}
	case 7:
		for i := range all {
			all[i] = &Device{Id: all[i].GetId(), Class: fmt.Sprint(random.IntN(3))}
		}
	case 8, 9, 10, 11: // the device itself, wherever its ID comes first
		all[n] = proto.CloneOf(all[n])
		all[n].Health = Fault("y", RecoveryReset, strings.Repeat("n", random.IntN(300)))
	default:
		for _, d := range changed {
			all[first(d.GetId())] = d
		}
		if err := out.Change(changed...); err != nil {
			t.Fatal(err)
		}
		return false
	}
	return true
}

// Verifies what Change refuses, and that nothing has changed then.
func TestChangeRefused(t *testing.T) {
	out := newReporter()
	if err := out.Change(); err == nil || !strings.Contains(err.Error(), "no inventory was published yet") {
		t.Errorf("before any inventory: %v", err)
	}
	out.Publish([]*Device{{Id: "\xff"}})
	if err := out.Change(); err == nil || !strings.Contains(err.Error(), "there is no inventory that could be changed: device") {
		t.Errorf("after one that could not be encoded: %v", err)
	}
	out.Publish(manyDevices(100))
	before, beats, _ := out.state()
	sick := &Device{Id: "device-3", Health: Fault("x", RecoverySelf, "")}
	for want, devices := range map[string][]*Device{
		`"stranger" is not in the inventory`: {sick, {Id: "stranger"}},
		`"device-3" comes twice`:             {sick, sick},
		`"device-4" cannot be encoded`:       {sick, {Id: "device-4", Class: "\xff"}},
	} {
		if err := out.Change(devices...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if now, b, _ := out.state(); now != before || b != beats {
			t.Errorf("%s: there is another inventory", want)
		}
	}
	if err := out.Change(manyDevices(100)[7]); err != nil {
		t.Error(err)
	}
	if now, b, _ := out.state(); now != before || b != beats+1 {
		t.Errorf("the same again: generation %d, %d beats", now.generation, b)
	}
}

// Verifies that a stream has changes only if it asked for them, begins with a whole
// inventory nonetheless, and skips what a slow reader misses.
func TestStreamOfChanges(t *testing.T) {
	for _, asked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			change := make(chan *Device)
			s := newServer(t, plain{watch: func(ctx context.Context, out *Reporter) error {
				out.Publish(manyDevices(100))
				for {
					select {
					case d := <-change:
						if err := out.Change(d); err != nil {
							return err
						}
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			}})
			ctx, cancel := context.WithCancel(t.Context())
			events, ended := make(chan *backendv1.WatchResponse), make(chan error, 1)
			go func() {
				ended <- s.Watch(&backendv1.WatchRequest{HeartbeatInterval: durationpb.New(time.Minute), Changes: asked}, sdktest.NewStream(ctx, events))
			}()
			synctest.Wait()
			for i := range 10 {
				change <- &Device{Id: "device-1", Class: fmt.Sprint(i)}
				change <- &Device{Id: "device-99", Class: fmt.Sprint(i)}
			}
			synctest.Wait()
			first, second := <-events, <-events
			if n := len(first.GetInventory().GetDevices()); n != 100 || first.GetInventory().GetGeneration() != 1 {
				t.Errorf("the stream began with %v", first)
			}
			devices, c := second.GetInventory().GetDevices(), second.GetChanges()
			switch {
			case asked && (c.GetGeneration() != 21 || c.GetBase() != 1 || len(c.GetDevices()) != 2 || c.GetDevices()[1].GetClass() != "9"):
				t.Errorf("then came %v", second)
			case !asked && (len(devices) != 100 || devices[99].GetClass() != "9"):
				t.Errorf("then came %v to one that did not ask for changes", second)
			}
			cancel()
			<-ended
			closeServer(t, s)
		})
	}
}

// Verifies that a change shares what it can with the inventory before, by Change and by
// Publish.
func TestChangesShare(t *testing.T) {
	for name, do := range map[string]func(*Reporter, []*Device) error{
		"Change":  func(out *Reporter, d []*Device) error { return out.Change(d[200]) },
		"Publish": func(out *Reporter, d []*Device) error { out.Publish(d); return nil },
	} {
		out, devices := newReporter(), manyDevices(300)
		out.Publish(devices)
		before := newest(t, out)
		devices[200].Class = "other"
		if err := do(out, devices); err != nil {
			t.Fatal(err)
		}
		now := newest(t, out)
		for i, block := range now.devices.blocks {
			if shared := &block[0] == &before.devices.blocks[i][0]; shared != (i != 200/blockSize) {
				t.Errorf("%s: block %d is shared: %t", name, i, shared)
			}
		}
		if now.devices.places != before.devices.places || now.devices.size != len(bytes.Join(now.devices.blocks, nil)) {
			t.Errorf("%s: another index, or a size of %d", name, now.devices.size)
		}
	}
}

// BenchmarkChange is one device of 4,000 that changes, up to the message.
func BenchmarkChange(b *testing.B) {
	for name, do := range map[string]func(*Reporter, []*Device) error{
		"Change":  func(out *Reporter, d []*Device) error { return out.Change(d[3_000]) },
		"Publish": func(out *Reporter, d []*Device) error { out.Publish(d); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			out, devices, n := newReporter(), []*Device{}, 0
			for i := range 4_000 {
				devices = append(devices, &Device{Id: fmt.Sprint("device-", i), Health: Healthy(), Edits: Nodes("/dev/null"),
					Attributes: map[string]*Attribute{"model": String("M1"), "driver": Version("1.2.3")}})
			}
			out.Publish(devices)
			b.ReportAllocs()
			for b.Loop() {
				before, _, _ := out.state()
				n++
				devices[3_000].Class = fmt.Sprint(n)
				if err := do(out, devices); err != nil {
					b.Fatal(err)
				}
				now, _, _ := out.state()
				if event, err := now.after(before, true); err != nil || proto.Size(event) > 1000 {
					b.Fatalf("%d bytes, %v", proto.Size(event), err)
				}
			}
		})
	}
}
