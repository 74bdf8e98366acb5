package inventory

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/deviceindex"
)

// Wire is an inventory as it came from a backend. Its devices stay encoded until one
// is looked at: decoded, they take ten times the memory, and most are the same as in
// the inventory before. It never changes; whoever made it leaves the bytes alone.
type Wire struct {
	generation, revision uint64
	problems             []string
	// blocks are the devices, blockSize of them in each but the last: an inventory that
	// was made by [Wire.Change] shares those that are the same.
	blocks [][]encoded
	count  int
	// size is what the devices take in an encoded inventory, in bytes.
	size int
	// places is shared by inventories that list the same devices.
	places *places
}

// encoded is a device: its bytes, or decoded.
type encoded struct {
	raw     []byte
	decoded *backendv1.Device
}

// id is the device's ID, whatever it is worth.
func (e encoded) id() []byte {
	if e.raw == nil {
		return []byte(e.decoded.GetId())
	}
	return deviceindex.ID(e.raw)
}

// blockSize is how many devices are in a block: few enough to copy them for one that
// changed, and enough for few blocks.
const blockSize = 512

// The numbers of the fields of Inventory, which those of Changes are too.
const (
	fieldGeneration = 1
	fieldDevices    = 2
	fieldProblems   = 3
	fieldRevision   = 4
	fieldBase       = 5 // of Changes only
)

// errMalformed ends a sentence that begins with what is malformed.
var errMalformed = errors.New("no valid protobuf")

// event is what an Inventory and Changes have besides devices.
type event struct {
	generation, base, revision uint64
	problems                   []string
}

// parse reads one, and gives each device to a function, until that returns false.
func (e *event) parse(data []byte, device func(raw []byte) bool) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return errMalformed
		}
		value := data[:n]
		data = data[n:]
		switch {
		case number == fieldGeneration && kind == protowire.VarintType:
			e.generation, _ = protowire.ConsumeVarint(value)
		case number == fieldBase && kind == protowire.VarintType:
			e.base, _ = protowire.ConsumeVarint(value)
		case number == fieldRevision && kind == protowire.VarintType:
			e.revision, _ = protowire.ConsumeVarint(value)
		case number == fieldDevices && kind == protowire.BytesType:
			raw, _ := protowire.ConsumeBytes(value)
			if !device(raw[:len(raw):len(raw)]) {
				return nil
			}
		case number == fieldProblems && kind == protowire.BytesType && len(e.problems) <= maxSentences:
			text, _ := protowire.ConsumeBytes(value)
			e.problems = append(e.problems, string(text[:min(len(text), maxSentence)]))
		}
	}
	return nil
}

// ParseWire reads an Inventory of the contract, and keeps the bytes. It reads no more
// than one device beyond [MaxDevices], as the report is refused then.
func ParseWire(data []byte) (*Wire, error) {
	var e event
	w, useful := &Wire{places: &places{}}, 0
	err := e.parse(data, func(raw []byte) bool {
		w.add(encoded{raw: raw})
		useful += len(raw)
		return w.count <= MaxDevices
	})
	if err != nil {
		return nil, fmt.Errorf("the inventory is %w", err)
	}
	w.generation, w.revision, w.problems = e.generation, e.revision, e.problems
	if len(data) > 2*useful+maxSentence {
		w.compact(useful)
	}
	return w, nil
}

// add adds a device, while the inventory is made.
func (w *Wire) add(d encoded) {
	if w.count%blockSize == 0 {
		w.blocks = append(w.blocks, nil)
	}
	last := &w.blocks[len(w.blocks)-1]
	*last = append(*last, d)
	w.count++
	w.size += fieldSize(len(d.raw))
}

// at is the device at a place.
func (w *Wire) at(i int) encoded { return w.blocks[i/blockSize][i%blockSize] }

// compact copies the devices, so that they do not hold on to the much greater message
// that they came in.
func (w *Wire) compact(size int) {
	all := make([]byte, 0, size)
	for _, block := range w.blocks {
		for i, d := range block {
			from := len(all)
			all = append(all, d.raw...)
			block[i].raw = all[from:len(all):len(all)]
		}
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
	w := &Wire{generation: i.GetGeneration(), revision: i.GetSettingsRevision(), problems: i.GetProblems(), places: &places{}}
	for _, d := range i.GetDevices() {
		w.add(encoded{decoded: d})
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
func (w *Wire) Len() int { return w.count }

// Largest is how many bytes the greatest device has.
func (w *Wire) Largest() int {
	most := 0
	for _, block := range w.blocks {
		for _, d := range block {
			most = max(most, len(d.raw))
		}
	}
	return most
}

// Problems are the backend's own sentences, as they came but for their length.
func (w *Wire) Problems() []string { return w.problems }

// device decodes one.
func (w *Wire) device(i int) (*backendv1.Device, error) {
	from := w.at(i)
	if from.raw == nil {
		return from.decoded, nil
	}
	d := &backendv1.Device{}
	if err := proto.Unmarshal(from.raw, d); err != nil {
		if field := GarbledField(from.raw, d.ProtoReflect().Descriptor()); field != "" {
			return nil, fmt.Errorf("the text of %s is not valid UTF-8", field)
		}
		return nil, fmt.Errorf("it cannot be decoded: %w", err)
	}
	return d, nil
}
