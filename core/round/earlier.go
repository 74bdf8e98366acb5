package round

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Earlier stores the devices that are known for the next run of the agent: those that a backend cannot look at then, and
// those that are allocated and not listed, such as a network interface that is in a container. Its methods are for one
// goroutine, but for Notes.
type Earlier struct {
	path, bootID string
	log          *slog.Logger
	// Devices are those of the earlier run, for [Removed]. They do not change.
	Devices map[inventory.Key]resource.Device
	// written is what the file has; nil if that is not known.
	written *known
	// problem is why the file could not be written; "" if it was.
	problem atomic.Value
}

// known is the content of the file.
type known struct {
	Devices []resource.Device
	// Backends have their counter sets and labels, and no devices.
	Backends []inventory.Backend
	// BootID is the boot of the machine.
	BootID string
}

const earlierMagic = "accelmux-devices/1"

// OpenEarlier reads what the earlier run stored at path. A file that cannot be read is as none. The devices of an earlier boot of
// the machine are ones that could not be looked at since.
func OpenEarlier(path, bootID string, log *slog.Logger) *Earlier {
	gob.Register(inventory.Version("")) // values of attributes
	gob.Register([]inventory.Version{})
	e := &Earlier{path: path, bootID: bootID, log: log, Devices: map[inventory.Key]resource.Device{}}
	payload, err := checkpoint.Read(path, earlierMagic)
	var read known
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(payload)).Decode(&read)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("devices that cannot be looked at, or are in containers, are not known: what was stored of them cannot be read", "error", err)
		}
		return e
	}
	for _, d := range read.Devices {
		if h := &d.Health; read.BootID != bootID && h.Unread == "" {
			h.Unread, h.UnreadSince = "its backend has not reported since the machine was booted", time.Now()
		}
		e.Devices[d.Key] = d
	}
	e.written = &read
	return e
}

// Backends are what the earlier run knew of each backend, for [inventory.Store.Restore].
func (e *Earlier) Backends() []*inventory.Backend {
	if e.written == nil {
		return nil
	}
	var backends []*inventory.Backend
	for _, b := range e.written.Backends {
		for _, d := range e.written.Devices {
			if d.Backend == b.Name {
				b.Devices = append(b.Devices, d.Device)
			}
		}
		backends = append(backends, &b)
	}
	return backends
}

// Store stores what a round knows, unless the file has it. Of a backend that has not reported it is what the earlier run
// knew.
func (e *Earlier) Store(r *Round, held map[inventory.Key][]holders.Allocation) {
	if r.Idle() {
		return // which devices there are is not known yet
	}
	now := e.known(r, held)
	if e.written != nil && e.written.equal(now) {
		e.written = &now // the same pointers are compared faster
		return
	}
	var payload bytes.Buffer
	err := gob.NewEncoder(&payload).Encode(now.stored())
	if err == nil {
		// It must survive the end of the agent, not a power cut.
		err = checkpoint.Writer{Unsynced: true}.Write(e.path, earlierMagic, payload.Bytes())
	}
	problem := ""
	if err == nil {
		e.written = &now
	} else {
		problem = fmt.Sprintf("the devices are not being saved, so a restart of the agent would not know those that cannot be looked at then: %v; make room or repair the disk", err)
	}
	if before := e.problem.Swap(problem); before != problem && err != nil {
		e.log.Warn("devices not saved", "path", e.path, "error", err)
	}
}

// Notes returns the problem with the file, if there is one. It may be called from any goroutine.
func (e *Earlier) Notes() []string {
	if problem, _ := e.problem.Load().(string); problem != "" {
		return []string{problem}
	}
	return nil
}

// known returns what a round knows.
func (e *Earlier) known(r *Round, held map[inventory.Key][]holders.Allocation) (k known) {
	k.BootID = e.bootID
	for _, b := range r.Snapshot.Backends {
		for _, d := range b.Devices {
			k.Devices = append(k.Devices, resource.Device{Device: d, Resource: r.ResourceOf(d.Key)})
		}
		k.Backends = append(k.Backends, inventory.Backend{Name: b.Name, CounterSets: b.CounterSets, NodeLabels: b.NodeLabels})
	}
	k.Devices = slices.AppendSeq(k.Devices, maps.Values(r.Removed))
	for key, d := range e.Devices {
		silent := !lists(r.Snapshot, key.Backend)
		if _, removed := r.Removed[key]; silent && !removed && (len(held[key]) > 0 || r.Profile.Backend(key.Backend) != nil) {
			k.Devices = append(k.Devices, d)
		}
	}
	slices.SortFunc(k.Devices, func(a, b resource.Device) int { return a.Compare(b.Key) })
	if e.written != nil {
		for _, b := range e.written.Backends {
			if !lists(r.Snapshot, b.Name) && r.Profile.Backend(b.Name) != nil {
				k.Backends = append(k.Backends, b)
			}
		}
	}
	return k
}

// stored returns what the file gets: package health stores the faults.
func (k known) stored() known {
	k.Devices = slices.Clone(k.Devices)
	for i, d := range k.Devices {
		changed, h := *d.Device, d.Health
		changed.Health = inventory.Health{State: inventory.StateUnknown, Unread: h.Unread, UnreadSince: h.UnreadSince.Round(0)}
		k.Devices[i] = resource.Device{Device: &changed, Resource: d.Resource}
	}
	return k
}

func (k known) equal(o known) bool {
	return k.BootID == o.BootID && slices.EqualFunc(k.Devices, o.Devices, func(a, b resource.Device) bool {
		return a.Resource == b.Resource && (a.Device == b.Device || a.Health.Unread == b.Health.Unread && inventory.EqualButHealth(a.Device, b.Device))
	}) && slices.EqualFunc(k.Backends, o.Backends, func(a, b inventory.Backend) bool {
		return a.Name == b.Name && reflect.DeepEqual(a.CounterSets, b.CounterSets) && slices.Equal(a.NodeLabels, b.NodeLabels)
	})
}
