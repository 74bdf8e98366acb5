package plug

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
	"github.com/accelmux/accelmux/test/hostile"
)

// crowd is an inventory of as many devices as are allowed, each with 20 attributes and with all the
// links that it may have; without has how many of the devices have nothing of it.
func crowd(without int) *backendv1.WatchResponse {
	all := &backendv1.Inventory{}
	for i := range backendplugin.MaxDevices {
		d := &backendv1.Device{
			Id: fmt.Sprintf("GPU-%04d", i), Class: "gpu", Attributes: map[string]*backendv1.Attribute{},
			Health: &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY},
			Edits:  &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: fmt.Sprint("/dev/gpu", i)}}},
		}
		if all.Devices = append(all.Devices, d); i < without {
			continue
		}
		for a := range 20 {
			d.Attributes[fmt.Sprint("attribute", a)] = &backendv1.Attribute{Value: &backendv1.Attribute_StringValue{StringValue: fmt.Sprint("the value ", a)}}
		}
		for l := range 16 {
			d.Links = append(d.Links, &backendv1.Link{PeerId: fmt.Sprintf("GPU-%04d", (i+l)%backendplugin.MaxDevices), Kind: backendv1.LinkKind_LINK_KIND_NVLINK})
		}
	}
	return &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: all}}
}

// Verifies that messages within the contract are accepted, and that those of millions of empty parts
// are refused before they use memory.
func TestGuardedCodec(t *testing.T) {
	sample := &backendv1.SampleResponse{}
	for i := range 20_480 {
		sample.Metrics = append(sample.Metrics, &backendv1.Metric{DeviceId: fmt.Sprint(i), Name: "power_watts"})
	}
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
	empty := &received{}
	must(t, Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(field(1, field(2, nil)))}, empty))
	for name, c := range map[string]struct {
		wire []byte
		into any
		want error
	}{
		"greatest sample": {wire(sample), &backendv1.SampleResponse{}, nil},
		"great inventory": {wire(crowd(0)), &received{}, nil},
		"empty metrics":   {empties, &backendv1.SampleResponse{}, errTooMuch},
		"empty devices":   {field(1, empties), &backendv1.WatchResponse{}, errTooMuch},
		"devices":         {field(1, empties), &received{}, errTooMuch},
		"copies":          {field(1, empties), &received{before: empty.report}, errTooMuch},
		"empty links":     {field(1, field(2, links)), &received{}, errTooMuch},
		"empty problems":  {field(1, problems), &received{}, errTooMuch},
		"many events":     {bytes.Repeat(field(1, bytes.Repeat([]byte{2<<3 | 2, 0}, 4_000)), 900), &received{}, nil}, // the last one counts
		"no message":      {bytes.Repeat([]byte{0xff}, 4<<20), &backendv1.SampleResponse{}, errMalformed},
		"unknown fields":  {field(15, empties), &backendv1.SampleResponse{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.wire)}, c.into)
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

// Verifies that the whole inventory counts, not only what changed: a backend cannot exceed the bound
// bit by bit.
func TestInventoryGrows(t *testing.T) {
	codec := Codec()
	lists := func(devices int) mem.BufferSlice {
		all := crowd(backendplugin.MaxDevices)
		for _, d := range all.GetInventory().GetDevices()[:devices] {
			for a := range 12 {
				d.Attributes[fmt.Sprint("a", a)] = &backendv1.Attribute{Value: &backendv1.Attribute_IntValues{IntValues: &backendv1.Ints{Values: make([]int64, 48)}}}
			}
		}
		data, err := proto.Marshal(all)
		must(t, err)
		return mem.BufferSlice{mem.SliceBuffer(data)}
	}
	r := &received{}
	for devices := 900; ; devices += 900 {
		err := codec.Unmarshal(lists(devices), r)
		if devices == 3600 {
			if !errors.Is(err, errTooMuch) {
				t.Errorf("%d devices with 12 lists: got %v, want %v", devices, err, errTooMuch)
			}
			return
		}
		if err != nil {
			t.Fatalf("%d devices with 12 lists: %v", devices, err)
		}
		r.before = r.report
	}
}

// Verifies for every text of every message that a backend may send that what cannot be printed does not get in, that texts for
// people are cut, that all else arrives as it was sent, and that the received bytes are left alone.
func TestTextsAreClean(t *testing.T) {
	const dirty = "A\x1b[31m\n\u202e\u2028\x00\u200b\xff\ufeff" // no newer than any table of characters
	methods := backendv1.File_accelmux_backend_v1_backend_proto.Services().Get(0).Methods()
	texts := map[protoreflect.FullName]bool{}
	for i := range methods.Len() {
		of := methods.Get(i).Output()
		for _, content := range []string{dirty, dirty + strings.Repeat("long", 1<<10), "caf\u00e9 100 %"} {
			for path, wire := range hostile.Stained(of, content) {
				kept := bytes.Clone(wire)
				got := dynamicpb.NewMessage(of)
				must(t, Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, got))
				if !bytes.Equal(wire, kept) {
					t.Errorf("%s: the received bytes were changed", path)
				}
				found := 0
				hostile.EachText(got, func(field protoreflect.FieldDescriptor, s string) {
					limit, people := forPeople[field.FullName()]
					texts[field.FullName()] = people
					found++
					if want := content; text.Clean(want) == want && s != want {
						t.Errorf("%s: %q arrives as %q", path, want, s)
					}
					if text.Clean(s) != s || people && (len(s) > limit || strings.ContainsRune(s, text.Unprintable)) {
						t.Errorf("%s: %q, %d bytes", path, text.Cut(s, 100), len(s))
					}
				})
				if found == 0 {
					t.Errorf("%s: it did not arrive", path)
				}
			}
		}
	}
	for name, people := range texts {
		if isMessage := slices.Contains([]protoreflect.Name{"message", "problems", "reason"}, name.Name()); isMessage && !people {
			t.Errorf("%s is for people: forPeople must bound it", name)
		}
	}
	if len(texts) < 40 {
		t.Errorf("there are only %d texts: %v", len(texts), texts)
	}
}

// Verifies that what a call returns as its error is clean and bounded, whatever its status.
func TestStatusesAreClean(t *testing.T) {
	dirty := status.Error(codes.Aborted, "a\x1b[2J\nb\u202e"+strings.Repeat("c", 1<<20))
	err := cleanStatus(dirty)
	if s := status.Convert(err); s.Code() != codes.Aborted || !text.IsClean(s.Message()) || len(s.Message()) > maxText+len("...") {
		t.Errorf("%v, %d bytes", s.Code(), len(s.Message()))
	}
	if err := cleanStatus(io.EOF); err != io.EOF { //nolint:errorlint // as it is
		t.Error(err)
	}
}
