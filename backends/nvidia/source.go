package nvidia

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

const (
	// retryFirst and retryLast bound the pause before the driver is opened again; it doubles.
	retryFirst, retryLast = time.Second, 30 * time.Second
	// atOnce requests the next scan at once.
	atOnce = time.Nanosecond
	// exitRestart is the exit code of a process that must be started again.
	exitRestart = 3
)

// source is NVIDIA's driver for the engine: a unit is a GPU, a device a GPU or one of its
// MIG devices.
//
// A scan always reads all GPUs, also after an event of one: the others may have changed
// without an event. They are read concurrently, each in its own lane, so that the scan takes
// as long as the slowest.
type source struct {
	*monitor
	cfg *config
}

// Name implements [engine.Driver].
func (source) Name() string { return driverNVIDIA }

// Scan implements [engine.Driver].
func (s source) Scan(known []engine.Unit) engine.Scan {
	s.scans.Lock()
	defer s.scans.Unlock()
	if err := s.ended.Err(); err != nil {
		return engine.Scan{Err: err} // the loop has ended, close releases the driver
	}
	began := time.Now()
	if s.uevent.Swap(false) {
		s.failures = 0
		s.renew = s.renew || len(s.mismatched) > 0
	}
	snapshot, isNew, err := s.read()
	if err != nil {
		return s.fail(known, err)
	}
	if s.failed != nil {
		s.log.Info("the driver answers again")
	}
	s.failed, s.failures = nil, 0
	found := engine.Scan{}
	if isNew { // another scan finds changes from before the subscription
		found.Next = atOnce
	}
	mismatched := mismatches(s.cfg.host, snapshot, s.cfg.maker.MissingNode)
	settled := slices.Equal(mismatched, s.mismatched)
	if !settled {
		s.mismatched, s.renew, found.Next = mismatched, len(mismatched) > 0, atOnce
	}
	found.Problems = s.records.overlooked(mismatched, settled, s.records.take(snapshot, s.cfg.host))
	s.groups = groupsOf(snapshot.Links)
	if s.judge(began) && found.Next == 0 {
		found.Next = selfTestPause
	}
	s.mps.Want(s.cfg.sharing(s.mps).plan(s.records, s.cfg.table))
	s.list(&found, snapshot)
	return found
}

// read opens the driver if it is not open, and reads the GPUs and the container edits. isNew:
// the subscription to events is new.
func (s source) read() (snapshot driver.Snapshot, isNew bool, err error) {
	d := s.reopen(s.cfg.driver)
	if s.renew {
		s.renew, s.stream = false, nil // closed with the driver
		release(d)
	}
	if err = d.Open(s.ended); err != nil {
		return snapshot, false, err
	}
	// Searching the driver's files may take as long as reading the GPUs. An event changes neither.
	urgent := s.isPending()
	var begun *edits.Begun
	if !urgent {
		begun = s.cfg.maker.Begin(d.Version())
		defer begun.Wait()
	}
	if snapshot, err = d.Snapshot(s.ended); err != nil {
		return snapshot, false, err
	}
	if isNew, err = s.subscribe(d, uuids(snapshot)); err != nil {
		return snapshot, false, err
	}
	if urgent && s.made.holds(s.cfg, snapshot) {
		return snapshot, isNew, nil
	}
	if begun == nil {
		begun = s.cfg.maker.Begin(d.Version())
	}
	s.made = made{s.cfg, begun.Make(&snapshot), identities(snapshot)}
	return snapshot, isNew, nil
}

// fail returns the result of a scan that could not read the driver. If a call hangs, the result
// of the last scan stays. Otherwise the GPUs have a fault until a driver answers.
func (s source) fail(known []engine.Unit, err error) engine.Scan {
	if s.failed == nil || s.failed.Error() != err.Error() {
		s.log.Info("the driver cannot be asked, trying again", "error", err)
	}
	s.failed = err
	if errors.Is(err, driver.ErrDriverGone) {
		s.stream = nil
		release(s.driver.Load())
	}
	if errors.Is(err, driver.ErrRestart) {
		s.seams.exit(exitRestart)
	}
	// A driver that only hung has not initialized the GPUs again.
	s.unloaded = s.unloaded || errors.Is(err, driver.ErrDriverGone) || errors.Is(err, driver.ErrNoDriver) || errors.Is(err, driver.ErrMismatch)
	pause := min(retryFirst<<min(s.failures, 10), retryLast)
	s.failures++
	found := engine.Scan{Next: pause/2 + rand.N(pause/2)}
	switch {
	case len(known) == 0:
		found.Problems = absence(s.cfg.host, err)
		return found
	case errors.Is(err, driver.ErrNoAnswer) || s.ended.Err() != nil:
		found.Err = err
		return found
	}
	for _, unit := range known {
		r := readingOf(unit)
		if k := s.records[unit.ID]; k != nil {
			r.health = k.health(s.cfg.table)
		}
		r.health = sdk.Graver(r.health, sdk.Fault("driver-away", sdk.RecoverySelf, err.Error()))
		unit.Vendor = r
		found.Units = append(found.Units, unit)
	}
	return found
}

// absence returns why a node with NVIDIA's hardware lists none. Without hardware it is no problem.
func absence(host sdk.HostPaths, err error) []engine.Problem {
	present, _ := pci.List(host.Sysfs, vendorNVIDIA, classVGA, class3D) // unreadable devices are left out
	if len(present) == 0 {
		return nil
	}
	return []engine.Problem{{Err: fmt.Errorf("%d NVIDIA GPUs are on the PCI bus (the first at %s), but the driver cannot be asked: %w",
		len(present), present[0].Address, err)}}
}

// judge updates the faults of all GPUs by what the scan that started at began has read, and by
// earlier events. It reports whether a GPU is in its self-test.
func (s source) judge(began time.Time) (testing bool) {
	events := s.take(began)
	for uuid, k := range s.records {
		if k.awaits(began) {
			continue
		}
		if after := k.reset; !after.IsZero() {
			events = slices.DeleteFunc(events, func(e driver.Event) bool { return e.Time.Before(after) && s.records.concerned(e) == uuid })
			if k.reset = (time.Time{}); len(k.conditions(s.cfg.table)) == 0 {
				k.reload()
			}
		}
		k.renew()
		k.test(began, s.cfg.table)
		if s.unloaded && k.gpu.Err == nil {
			k.reload()
		}
		k.give(s.made.set)
		testing = testing || k.wasLost && k.gpu.Err == nil
	}
	s.unloaded = false
	for _, event := range events {
		k := s.records[s.records.concerned(event)]
		if k == nil {
			continue // of no known GPU: the scan was enough
		}
		if event.Type == driver.EventXID {
			k.xids.add(event.XID)
		}
		if note := k.heard(event, s.cfg.table); note != "" {
			s.log.Info("an event that is no fault of the GPU", "gpu", k.gpu.UUID, "note", note)
		}
	}
	return testing
}

// Uevent implements [engine.EventReader]. If NVML does not list a GPU, or still lists a removed
// one, the next scan opens the driver again: another GPU may have that address now.
func (v vendor) Uevent(uevent.Event, engine.Known) { v.gpus.uevent.Store(true) }

const (
	// vendorNVIDIA, the classes of GPUs on the PCI bus, their base class, and the name of
	// NVIDIA's driver in the kernel.
	vendorNVIDIA             = 0x10de
	classVGA, class3D uint16 = 0x0300, 0x0302
	displayController        = 0x03
	driverNVIDIA             = "nvidia"
)

// concerns reports whether an event of the kernel is about an NVIDIA GPU or the driver's
// modules. The properties are those of pci_uevent in drivers/pci/pci-driver.c. Loading nvidia
// also binds its GPUs; nvidia_uvm makes a node that containers need.
func concerns(e uevent.Event) bool {
	switch e.Subsystem {
	case "module":
		return strings.HasPrefix(e.DevPath, "/module/nvidia")
	case "pci":
		class, err := strconv.ParseUint(e.Properties["PCI_CLASS"], 16, 32)
		return err == nil && class>>16 == displayController && strings.HasPrefix(e.Properties["PCI_ID"], "10DE:")
	}
	return false
}

// Measure implements [engine.Measurer]. Values of a GPU in MIG mode have its UUID, which is the
// parent of its MIG devices.
func (s source) Measure(u engine.Unit, _ string) (metrics []*sdk.Metric) {
	d := s.driver.Load()
	measured, err := d.Telemetry(context.Background(), u.ID) // bounded by the driver's time limit
	if err != nil {
		s.log.Debug("the GPU cannot be measured", "device", u.ID, "error", err)
	}
	for _, m := range measured {
		if m.Err != nil {
			s.log.Debug("not all can be measured", "device", m.GPU, "error", m.Err)
		}
		for _, v := range m.Values {
			metrics = append(metrics, metric(m.GPU, v))
		}
	}
	return metrics
}

func uuids(s driver.Snapshot) []string {
	var all []string
	for _, g := range s.GPUs {
		if g.UUID != "" {
			all = append(all, g.UUID)
		}
	}
	slices.Sort(all)
	return all
}
