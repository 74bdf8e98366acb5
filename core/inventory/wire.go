package inventory

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Wire is an inventory as it came from a backend. Its devices stay encoded until one
// is looked at: decoded, they take ten times the memory, and most are the same as in
// the inventory before. It never changes; whoever made it leaves the bytes alone.
type Wire struct {
	generation, revision uint64
	problems             []string
	devices              []encoded
}

// encoded is a device: its bytes, or decoded.
type encoded struct {
	raw     []byte
	decoded *backendv1.Device
}

// The numbers of the fields of Inventory, and of a device's ID.
const (
	fieldGeneration = 1
	fieldDevices    = 2
	fieldProblems   = 3
	fieldRevision   = 4
)

var errMalformed = errors.New("the inventory is no valid protobuf")

// ParseWire reads an Inventory of the contract, and keeps the bytes. It reads no more
// than one device beyond [MaxDevices], as the report is refused then.
func ParseWire(data []byte) (*Wire, error) {
	w, whole, useful := &Wire{}, len(data), 0
	for len(data) > 0 && len(w.devices) <= MaxDevices {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, errMalformed
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return nil, errMalformed
		}
		value := data[:n]
		data = data[n:]
		switch {
		case number == fieldGeneration && kind == protowire.VarintType:
			w.generation, _ = protowire.ConsumeVarint(value)
		case number == fieldRevision && kind == protowire.VarintType:
			w.revision, _ = protowire.ConsumeVarint(value)
		case number == fieldDevices && kind == protowire.BytesType:
			raw, _ := protowire.ConsumeBytes(value)
			w.devices = append(w.devices, encoded{raw: raw[:len(raw):len(raw)]})
			useful += len(raw)
		case number == fieldProblems && kind == protowire.BytesType && len(w.problems) <= maxSentences:
			text, _ := protowire.ConsumeBytes(value)
			w.problems = append(w.problems, string(text[:min(len(text), maxSentence)]))
		}
	}
	if whole > 2*useful+maxSentence {
		w.compact(useful)
	}
	return w, nil
}

// compact copies the devices, so that they do not hold on to the much greater message
// that they came in.
func (w *Wire) compact(size int) {
	all := make([]byte, 0, size)
	for i, d := range w.devices {
		from := len(all)
		all = append(all, d.raw...)
		w.devices[i].raw = all[from:len(all):len(all)]
	}
}

const (
	// maxSentences bounds the problems that are read of an inventory; MaxProblems of them
	// are kept, and the rest only counted.
	maxSentences = 1 << 16
	// maxSentence is how much is read of each, in bytes.
	maxSentence = 16 << 10
)

// WireOf is an inventory that is decoded already, for tests.
func WireOf(i *backendv1.Inventory) *Wire {
	if i == nil {
		return nil
	}
	w := &Wire{generation: i.GetGeneration(), revision: i.GetSettingsRevision(), problems: i.GetProblems()}
	for _, d := range i.GetDevices() {
		w.devices = append(w.devices, encoded{decoded: d})
	}
	return w
}

// Generation counts the inventories of the backend's process.
func (w *Wire) Generation() uint64 { return w.generation }

// SettingsRevision is that of the settings that the inventory follows from; also of a
// nil Wire.
func (w *Wire) SettingsRevision() uint64 {
	if w == nil {
		return 0
	}
	return w.revision
}

// Len is how many devices are listed.
func (w *Wire) Len() int { return len(w.devices) }

// Largest is how many bytes the greatest device has.
func (w *Wire) Largest() int {
	most := 0
	for _, d := range w.devices {
		most = max(most, len(d.raw))
	}
	return most
}

// Problems are the backend's own sentences, as they came but for their length.
func (w *Wire) Problems() []string { return w.problems }

// device decodes one.
func (w *Wire) device(i int) (*backendv1.Device, error) {
	if d := w.devices[i]; d.raw == nil {
		return d.decoded, nil
	}
	d := &backendv1.Device{}
	if err := proto.Unmarshal(w.devices[i].raw, d); err != nil {
		if field := GarbledField(w.devices[i].raw, d.ProtoReflect().Descriptor()); field != "" {
			return nil, fmt.Errorf("the text of %s is not valid UTF-8", field)
		}
		return nil, fmt.Errorf("it cannot be decoded: %w", err)
	}
	return d, nil
}
