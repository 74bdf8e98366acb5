package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Records are the records of the node's GPUs by UUID. They keep earlier values of a GPU that fails.
type Records map[string]*Record

// Take updates the records from a snapshot, and returns the problems of GPUs without a UUID. The
// record of a GPU that NVML does not list, or that was unplugged, is dropped, unless NVIDIA's driver
// is bound to the GPU or the result of a reset is still awaited.
func (r Records) Take(s driver.Snapshot, host sdk.HostPaths) (problems []engine.Problem) {
	seen := map[string]bool{}
	for _, g := range placed(s.GPUs, host.Sysfs) {
		if g.UUID == "" {
			g.UUID = cmp.Or(r.at(g.PCIBusID), identifier(host.Procfs, g.PCIBusID))
		}
		if g.UUID == "" {
			problems = append(problems, unidentified(g))
			continue
		}
		if r.unplugged(g, host.Sysfs) {
			continue
		}
		seen[g.UUID] = true
		if r[g.UUID] == nil {
			r[g.UUID] = newRecord()
		}
		r[g.UUID].update(g, host.Sysfs)
	}
	maps.DeleteFunc(r, func(uuid string, k *Record) bool {
		if seen[uuid] {
			return false
		}
		k.missing, k.At = true, deviceAt(host.Sysfs, k.GPU.PCIBusID)
		return k.At.Driver != DriverName && k.reset.IsZero()
	})
	return problems
}

// Update updates the records of some GPUs, and returns their UUIDs. It skips GPUs without a record.
func (r Records) Update(gpus []driver.GPU, host sdk.HostPaths) (uuids []string) {
	for _, g := range gpus {
		if k := r[g.UUID]; k != nil {
			k.update(g, host.Sysfs)
			uuids = append(uuids, g.UUID)
		}
	}
	return uuids
}

// unidentified returns the problem of a GPU without a UUID.
func unidentified(g driver.GPU) engine.Problem {
	where := cmp.Or(g.PCIBusID, "a GPU at an unknown bus ID")
	if g.Err == nil {
		return engine.Problem{Device: where, Err: errors.New("the GPU has no UUID, so no container can be given it")}
	}
	return engine.Problem{Device: where, Err: fmt.Errorf("the GPU failed before the driver reported its UUID, so it is not listed: %w", g.Err)}
}

// Overlooked returns the problems with those of mismatched GPUs added, so that no GPU is missing
// without a report. A GPU that has a record or a problem already is skipped. settled is false until
// the driver was opened again, which may end the mismatches; nothing is added before.
func (r Records) Overlooked(mismatched []Mismatch, settled bool, problems []engine.Problem) []engine.Problem {
	for _, m := range mismatched {
		if known := r[r.at(m.busID)]; known != nil {
			known.node = m.node
			continue
		}
		if !settled || slices.ContainsFunc(problems, func(p engine.Problem) bool { return p.Device == m.busID }) {
			continue
		}
		why := "see the kernel's log (dmesg | grep NVRM); if the GPU is dead, reboot the node"
		if m.node != "" {
			why = m.node
		}
		// With Lost the next scan comes before the interval ends: the device node may be made late.
		problems = append(problems, engine.Problem{Device: m.busID, Lost: m.node != "", Err: errors.New("the NVIDIA driver has the GPU, but NVML does not list it: " + why)})
	}
	return problems
}

// Give stores the container edits of all GPUs that could be read.
func (r Records) Give(set *edits.Set) {
	for _, k := range r {
		k.give(set)
	}
}

// at returns the UUID of the GPU that was last read at the bus ID; "" if there is none.
func (r Records) at(busID string) string {
	for uuid, known := range r {
		if busID != "" && known.GPU.PCIBusID == busID {
			return uuid
		}
	}
	return ""
}

// unplugged reports whether a GPU is lost because it was taken off the PCI bus: sysfs had it there
// when it was last read. A machine may also list GPUs that its PCI bus never had.
func (r Records) unplugged(g driver.GPU, sysfs string) bool {
	known := r[r.at(g.PCIBusID)]
	return errors.Is(g.Err, driver.ErrLost) && known != nil && known.At.Vendor != 0 && deviceAt(sysfs, g.PCIBusID).Vendor == 0
}

// Of returns the UUID of the GPU of an event; "" if unknown.
func (r Records) Of(event driver.Event) string {
	if r[event.GPU] != nil {
		return event.GPU
	}
	return r.at(event.PCIBusID)
}

// Reset records that a GPU was reset. A later scan shows the result.
func (r Records) Reset(uuid string) {
	if k := r[uuid]; k != nil {
		k.reset = time.Now()
	}
}

// Reading is the input of Judge.
type Reading struct {
	// Began is when the reading began. UUIDs are the GPUs that were read, and that have a record.
	Began time.Time
	UUIDs []string
	// Events are those from before Began of these GPUs, or of GPUs without a record.
	Events []driver.Event
	// Reloaded: the driver was unloaded since the last reading.
	Reloaded bool
}

// Judge updates the faults of the GPUs that were read, first by their values, then by their events.
// It reports whether a GPU that was lost is in its self-test.
func (r Records) Judge(read Reading, table *xid.Table, log *slog.Logger) (testing bool) {
	events := read.Events
	for _, uuid := range read.UUIDs {
		k := r[uuid]
		if k.resetting(read.Began) {
			continue
		}
		if after := k.reset; !after.IsZero() {
			events = slices.DeleteFunc(events, func(e driver.Event) bool { return e.Time.Before(after) && r.Of(e) == uuid })
			if k.reset = (time.Time{}); len(k.conditions(table)) == 0 {
				k.initialize()
			}
		}
		k.clear()
		k.test(read.Began, table)
		if read.Reloaded && k.GPU.Err == nil {
			k.initialize()
		}
		testing = testing || k.wasLost && k.GPU.Err == nil
	}
	for _, event := range events {
		k := r[r.Of(event)]
		if k == nil {
			continue // the GPU has no record: the event required only the scan
		}
		if note := k.judge(event, table); note != "" {
			log.Info("the event is no fault of the GPU", "device", k.GPU.UUID, "reason", note)
		}
	}
	return testing
}

// Verdicts returns the verdicts by UUID.
func (r Records) Verdicts(table *xid.Table) map[string]Verdict {
	all := map[string]Verdict{}
	for uuid, k := range r {
		all[uuid] = k.verdict(table)
	}
	return all
}
