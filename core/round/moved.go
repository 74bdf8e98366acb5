package round

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
)

// Moved stores the allocated devices with network interfaces for the next run of the agent: their
// backend does not list them while the interfaces are in containers. Its methods are for one
// goroutine.
type Moved struct {
	path string
	// Earlier has those of the earlier run, for [Removed]. It does not change.
	Earlier map[inventory.Key]RemovedDevice
	// written is the file's content.
	written []byte
}

const movedMagic = "accelmux-moved/1"

// OpenMoved reads what the earlier run stored at path. A file that cannot be read is as none.
func OpenMoved(path string, log *slog.Logger) *Moved {
	gob.Register(inventory.Version("")) // values of attributes
	gob.Register([]inventory.Version{})
	m := &Moved{path: path, Earlier: map[inventory.Key]RemovedDevice{}}
	payload, err := checkpoint.Read(path, movedMagic)
	var devices []RemovedDevice
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(payload)).Decode(&devices)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("devices whose network interfaces are in containers are not listed until these end: what was stored of them cannot be read", "error", err)
		}
		return m
	}
	for _, d := range devices {
		m.Earlier[d.Device.Key] = d
	}
	m.written = payload
	return m
}

// Store stores the devices of a round, if they are not as they were.
func (m *Moved) Store(r *Round, held map[inventory.Key][]holders.Allocation) error {
	var devices []RemovedDevice
	for _, key := range slices.SortedFunc(maps.Keys(held), inventory.Key.Compare) {
		d := r.lastSeen(key)
		if d.Device == nil && !lists(r.Snapshot, key.Backend) {
			d = m.Earlier[key]
		}
		if d.Device != nil && len(d.Device.Edits.NetDevices) > 0 {
			devices = append(devices, d)
		}
	}
	if len(devices) == 0 && m.written == nil {
		return nil
	}
	var payload bytes.Buffer
	err := gob.NewEncoder(&payload).Encode(devices)
	if err == nil && bytes.Equal(payload.Bytes(), m.written) {
		return nil
	}
	if err == nil {
		err = checkpoint.Writer{}.Write(m.path, movedMagic, payload.Bytes())
	}
	if err != nil {
		return fmt.Errorf("store the devices whose network interfaces are in containers: %w", err)
	}
	m.written = payload.Bytes()
	return nil
}
