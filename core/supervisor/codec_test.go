package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Verifies that the contract's largest messages are accepted, and that messages of millions
// of empty parts are refused before they use memory.
func TestGuardedCodec(t *testing.T) {
	sample := &backendv1.SampleResponse{}
	for i := range 65_536 {
		labels := map[string]string{}
		for l := range 8 {
			labels[fmt.Sprint("l", l)] = "x"
		}
		sample.Metrics = append(sample.Metrics, &backendv1.Metric{DeviceId: fmt.Sprint(i), Name: "power_watts", Labels: labels})
	}
	great := &backendv1.Inventory{}
	for i := range 4096 {
		d := &backendv1.Device{Id: fmt.Sprint(i)}
		for range 40 {
			d.Links = append(d.Links, &backendv1.Link{PeerId: "GPU-00000000-0000-0000-0000-000000000000"})
		}
		great.Devices = append(great.Devices, d)
	}
	watch := &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: great}}
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
	problems := bytes.Repeat([]byte{3<<3 | 2, 0}, 4_000_000)
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
		"devices":         {field(1, empties), &received{}, errTooManyParts},
		"copies":          {field(1, empties), &received{before: &inventory.Report{Devices: []string{""}}}, errTooManyParts},
		"empty links":     {field(1, field(2, links)), &received{}, errTooManyParts},
		"empty problems":  {field(1, problems), &received{}, errTooManyParts},
		"many events":     {bytes.Repeat(field(1, bytes.Repeat([]byte{2<<3 | 2, 0}, 4_000)), 900), &received{}, nil}, // the last one counts
		"no message":      {bytes.Repeat([]byte{0xff}, 4<<20), &backendv1.SampleResponse{}, errMalformed},
		"unknown fields":  {field(15, empties), &backendv1.SampleResponse{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := newGuardedCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.wire)}, c.into)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; c.want != nil && took > 40 {
				t.Errorf("refused, but it took %d MiB of memory", took)
			}
		})
	}
}

// Verifies that the bytes of a text which are not valid UTF-8 arrive as DEL, wherever the
// text is, that all else arrives as it was sent, and that the received message is left alone.
func TestInvalidTextArrivesAsDEL(t *testing.T) {
	const mark = "MARK"
	sent := &backendv1.Inventory{
		Generation: 3, Problems: []string{"caf\u00e9", mark},
		Devices: []*backendv1.Device{
			{Id: "a" + mark, Links: []*backendv1.Link{{PeerId: mark + mark, Count: 2}}},
			{Id: "b", Capacities: map[string]int64{mark: 7}, Edits: &backendv1.ContainerEdits{
				Env: map[string]string{"A": mark + "\u00e9"}, DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/a"}, {Path: "/dev/" + mark}},
			}},
		},
	}
	event := &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: sent}}
	data, err := proto.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	garbled := bytes.ReplaceAll(data, []byte(mark), []byte("\xffX\xc3\xe9"))
	kept := bytes.Clone(garbled)
	got := &received{}
	if err := newGuardedCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(garbled)}, got); err != nil {
		t.Fatal(err)
	}
	want := &backendv1.WatchResponse{}
	if err := proto.Unmarshal(bytes.ReplaceAll(data, []byte(mark), []byte("\x7fX\x7f\x7f")), want); err != nil {
		t.Fatal(err)
	}
	decoded := proto.CloneOf(got.report.Inventory)
	for _, encoded := range got.report.Devices {
		d := &backendv1.Device{}
		if err := proto.Unmarshal([]byte(encoded), d); err != nil {
			t.Fatal(err)
		}
		decoded.Devices = append(decoded.Devices, d)
	}
	if !proto.Equal(decoded, want.GetInventory()) || got.size != len(data) {
		t.Errorf("%d bytes: %v, want %v", got.size, decoded, want)
	}
	if !bytes.Equal(garbled, kept) {
		t.Error("the received bytes were changed")
	}
}
