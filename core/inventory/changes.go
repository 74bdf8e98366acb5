package inventory

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/accelmux/accelmux/proto/backendplugin"
	"github.com/accelmux/accelmux/proto/deviceindex"
)

// Changes are what a backend says of few devices of an inventory that it has sent;
// [Wire.Change] makes the next inventory of them.
type Changes struct {
	event
	devices [][]byte
}

// ParseChanges reads Changes of the contract, and keeps the bytes. It reads no more
// than one device beyond [MaxDevices]: they are refused then, as one comes twice or is
// not in the inventory.
func ParseChanges(data []byte) (*Changes, error) {
	c := &Changes{}
	err := c.parse(data, func(raw []byte) bool {
		c.devices = append(c.devices, raw)
		return len(c.devices) <= MaxDevices
	})
	if err != nil {
		return nil, fmt.Errorf("the changes are %w", err)
	}
	return c, nil
}

// Generation counts the inventories and changes of the backend's process.
func (c *Changes) Generation() uint64 { return c.generation }

// Largest is how many bytes the greatest device has.
func (c *Changes) Largest() int {
	most := 0
	for _, raw := range c.devices {
		most = max(most, len(raw))
	}
	return most
}

// Change is the inventory that changes lead to: that which the backend would have sent
// in their place. It takes time and memory for what changed, and shares the rest. The
// error says which rule of the contract the changes break; whether the inventory is
// good is for [Store.Report] to say.
func (w *Wire) Change(c *Changes) (*Wire, error) {
	if c.base != w.generation {
		return nil, fmt.Errorf("they change generation %d, but the one before them on the stream is %d; send the whole inventory to begin anew",
			c.base, w.generation)
	}
	next := *w
	next.generation, next.revision, next.problems = c.generation, c.revision, c.problems
	next.blocks = slices.Clone(w.blocks)
	places := make(map[int]bool, len(c.devices))
	for _, raw := range c.devices {
		id := deviceindex.ID(raw)
		i := w.find(id)
		switch {
		case i < 0:
			return nil, fmt.Errorf("the device %s is not in the inventory that they change; to add one, send the whole inventory", quote(string(id)))
		case places[i]:
			return nil, fmt.Errorf("the device %s comes twice in them; send each as it is now, once", quote(string(id)))
		}
		places[i] = true
		block := &next.blocks[i/blockSize]
		if &(*block)[0] == &w.blocks[i/blockSize][0] {
			*block = slices.Clone(*block)
		}
		next.size += fieldSize(len(raw)) - fieldSize(len(w.at(i).raw))
		// A copy, so that a small device does not hold on to a great message.
		(*block)[i%blockSize] = encoded{raw: bytes.Clone(raw)}
	}
	size := next.size
	for _, p := range next.problems {
		size += fieldSize(len(p))
	}
	if size > backendplugin.MaxMessageSize {
		return nil, fmt.Errorf("the whole inventory takes %d bytes with them; at most %d are allowed, as in one message", size, backendplugin.MaxMessageSize)
	}
	return &next, nil
}

// fieldSize is what a field of so many bytes takes in an inventory.
func fieldSize(length int) int { return 1 + protowire.SizeBytes(length) }

// places find devices by their ID; made when one is looked for first.
type places struct {
	once  sync.Once
	index *deviceindex.Index
}

// find is the place of the first device with this ID, or -1.
func (w *Wire) find(id []byte) int {
	ids := func(i int) []byte { return w.at(i).id() }
	w.places.once.Do(func() {
		w.places.index = deviceindex.New(w.count)
		for i := range w.count {
			w.places.index.Add(ids(i), i, ids)
		}
	})
	return w.places.index.Find(id, ids)
}
