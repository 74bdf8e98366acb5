package inventory

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that the field is named whose text is not valid UTF-8, and no other.
func TestGarbledField(t *testing.T) {
	const mark = "SPOILED"
	spoiled := func(d *backendv1.Device) []byte {
		wire, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.ReplaceAll(wire, []byte(mark), []byte("\xff\xfe\xfd LED"))
	}
	for want, d := range map[string]*backendv1.Device{
		"id":                         {Id: mark},
		"health.message":             {Id: "a", Health: &backendv1.Health{Code: "x", Message: "y " + mark}},
		"edits.device_nodes[1].path": {Id: "a", Edits: &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/a"}, {Path: mark}}}},
		"capacities.key":             {Id: "a", Capacities: map[string]int64{mark: 1}},
		"":                           {Id: "a", PciBusId: "ä"},
	} {
		wire := spoiled(d)
		if got := GarbledField(wire, d.ProtoReflect().Descriptor()); got != want {
			t.Errorf("%q is named, want %q", got, want)
		}
		w := &Wire{}
		w.add(encoded{raw: wire})
		_, err := w.device(0)
		if want == "" {
			if err != nil {
				t.Errorf("a sound device: %v", err)
			}
		} else if err == nil || err.Error() != "the text of "+want+" is not valid UTF-8" {
			t.Errorf("the device with a bad %s: %v", want, err)
		}
	}
}

// Verifies that a message of megabytes of words is not kept for the few devices that came
// in it, nor are the words.
func TestWireIsCompact(t *testing.T) {
	device, err := proto.Marshal(&backendv1.Device{Id: "a"})
	if err != nil {
		t.Fatal(err)
	}
	data := protowire.AppendTag(nil, fieldDevices, protowire.BytesType)
	data = protowire.AppendBytes(data, device)
	data = protowire.AppendTag(data, fieldProblems, protowire.BytesType)
	data = protowire.AppendString(data, strings.Repeat("z", 32<<20))
	w, err := ParseWire(data)
	if err != nil {
		t.Fatal(err)
	}
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(data) // and no longer
	runtime.GC()
	runtime.ReadMemStats(&without)
	if freed := int64(with.HeapAlloc) - int64(without.HeapAlloc); freed < 24<<20 {
		t.Errorf("%d bytes of a message of 32 MiB could be freed", freed)
	}
	if got, err := w.device(0); err != nil || got.GetId() != "a" || len(w.Problems()) != 1 || len(w.Problems()[0]) != maxSentence {
		t.Errorf("read %v, %v and %d problems", got, err, len(w.Problems()))
	}
}
