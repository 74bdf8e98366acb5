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
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Moved stores the allocated devices with network interfaces for the next run of the agent: their
// backend does not list them while the interfaces are in containers. Its methods are for one
// goroutine.
type Moved struct {
	path string
	// earlier has those of the earlier run, until they are used.
	earlier *Round
	// written is the file's content.
	written []byte
}

// movedDevice is a device in the file, and the resource that it is of.
type movedDevice struct {
	Resource string
	Device   *inventory.Device
}

const movedMagic = "accelmux-moved/1"

// OpenMoved reads what the earlier run stored at path. A file that cannot be read is as none.
func OpenMoved(path string, log *slog.Logger) *Moved {
	gob.Register(inventory.Version("")) // values of attributes
	gob.Register([]inventory.Version{})
	m := &Moved{path: path}
	payload, err := checkpoint.Read(path, movedMagic)
	var devices []movedDevice
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(payload)).Decode(&devices)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("devices whose network interfaces are in containers are not listed until these end: what was stored of them cannot be read", "error", err)
		}
		return m
	}
	r := Round{Profile: &config.Profile{}, Snapshot: &inventory.Snapshot{}, Health: &health.View{}, Table: &resource.Table{}, Removed: map[inventory.Key]*inventory.Device{}}
	for _, d := range devices {
		r.Removed[d.Device.Key] = d.Device
		r.Table.Resources = append(r.Table.Resources, &resource.Resource{
			Resource: config.Resource{Name: d.Resource}, Devices: []resource.Device{{Device: d.Device}},
		})
	}
	m.earlier, m.written = New(r), payload
	return m
}

// Before returns the previous round: that of the earlier run, once every backend has reported for
// the first time.
func (m *Moved) Before(p *config.Profile, snapshot *inventory.Snapshot, before *Round) *Round {
	if m.earlier == nil || len(p.Backends) == 0 || len(snapshot.Backends) < len(p.Backends) {
		return before
	}
	before, m.earlier = m.earlier, nil
	return before
}

// Store stores the devices of a round, if they are not as they were.
func (m *Moved) Store(r *Round, held map[inventory.Key][]holders.Allocation) error {
	if m.earlier != nil {
		return nil
	}
	var devices []movedDevice
	for _, key := range slices.SortedFunc(maps.Keys(held), inventory.Key.Compare) {
		if d := r.LastSeen(key); d != nil && len(d.Edits.NetDevices) > 0 {
			devices = append(devices, movedDevice{r.ResourceOf(key), d})
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
