package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// errAny is any error.
var errAny = errors.New("any error")

// Verifies that the greatest messages of the contract pass, and that those made of
// millions of empty parts are refused before they cost memory.
func TestBoundedCodec(t *testing.T) {
	sample := &backendv1.SampleResponse{}
	for i := range 65_536 {
		labels := map[string]string{}
		for l := range 8 {
			labels[fmt.Sprint("l", l)] = "x"
		}
		sample.Metrics = append(sample.Metrics, &backendv1.Metric{DeviceId: fmt.Sprint(i), Name: "power_watts", Labels: labels})
	}
	inventory := &backendv1.Inventory{}
	for i := range 4096 {
		d := &backendv1.Device{Id: fmt.Sprint(i)}
		for range 40 {
			d.Links = append(d.Links, &backendv1.Link{PeerId: "GPU-00000000-0000-0000-0000-000000000000"})
		}
		inventory.Devices = append(inventory.Devices, d)
	}
	watch := &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: inventory}}
	wire := func(message proto.Message) []byte {
		data, err := proto.Marshal(message)
		if err != nil || len(data) > backendplugin.MaxMessageSize {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		return data
	}
	// field is one of a message, length-delimited.
	field := func(number byte, content []byte) []byte {
		n := len(content)
		return append([]byte{number<<3 | 2, byte(n&0x7f) | 0x80, byte(n>>7&0x7f) | 0x80, byte(n>>14&0x7f) | 0x80, byte(n >> 21)}, content...)
	}
	empties := bytes.Repeat([]byte{2<<3 | 2, 0}, 4_000_000)
	links := bytes.Repeat([]byte{8<<3 | 2, 0}, 4_000_000)
	for name, c := range map[string]struct {
		wire []byte
		into any
		want error
	}{
		"greatest sample": {wire(sample), &backendv1.SampleResponse{}, nil},
		"great inventory": {wire(watch), &backendv1.WatchResponse{}, nil},
		"empty metrics":   {empties, &backendv1.SampleResponse{}, errTooManyParts},
		"empty devices":   {field(1, empties), &backendv1.WatchResponse{}, errTooManyParts},
		"watched":         {wire(watch), &watched{}, nil},
		"watched links":   {field(1, field(2, links)), &watched{}, errTooManyParts},
		"changed links":   {field(3, field(2, links)), &watched{}, errTooManyParts},
		"changes":         {field(3, field(2, []byte{1<<3 | 2, 0})), &watched{}, nil},
		"bad changes":     {field(3, []byte{0xff}), &watched{}, errAny},
		"empty links":     {field(1, field(2, links)), &backendv1.WatchResponse{}, errTooManyParts},
		"no message":      {bytes.Repeat([]byte{0xff}, 4<<20), &backendv1.SampleResponse{}, errMalformed},
		"unknown fields":  {field(15, empties), &backendv1.SampleResponse{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := newBoundedCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.wire)}, c.into)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, c.want) && (c.want == nil || err == nil || !errors.Is(c.want, errAny)) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; c.want != nil && took > 40 {
				t.Errorf("refused, but it took %d MiB of memory", took)
			}
		})
	}
}

// Verifies that of several events in a message the last one counts, a heartbeat as well,
// and that the others cost nothing.
func TestLastEventCounts(t *testing.T) {
	one := func(e *backendv1.WatchResponse) []byte {
		data, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	events := map[string][]byte{
		"inventory": one(&backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: &backendv1.Inventory{Generation: 1}}}),
		"changes":   one(&backendv1.WatchResponse{Event: &backendv1.WatchResponse_Changes{Changes: &backendv1.Changes{Generation: 2}}}),
		"heartbeat": one(&backendv1.WatchResponse{Event: &backendv1.WatchResponse_Heartbeat{Heartbeat: &backendv1.Heartbeat{}}}),
	}
	for first, before := range events {
		for last, data := range events {
			var w watched
			many := append(bytes.Repeat(before, 1000), data...)
			if err := w.decode(many); err != nil {
				t.Fatal(err)
			}
			if (w.inventory != nil) != (last == "inventory") || (w.changes != nil) != (last == "changes") {
				t.Errorf("of %s before %s come %v and %v", first, last, w.inventory, w.changes)
			}
			if n := testing.AllocsPerRun(5, func() { _ = w.decode(many) }); n > 10 {
				t.Errorf("%s before %s: %v allocations", first, last, n)
			}
		}
	}
}
