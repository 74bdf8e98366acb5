package nvidia

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
)

const (
	// The pause before the driver is opened again doubles from retryFirst to retryLast; each is
	// shortened by up to half at random.
	retryFirst, retryLast = time.Second, 30 * time.Second
	// atOnce, as Scan.Next, requests the next scan at once.
	atOnce = time.Nanosecond
	// exitRestart is the exit status of a process that the core must start again.
	exitRestart = 3
)

// source implements [engine.Driver] with NVIDIA's driver. A unit is a GPU; a device is a GPU or one
// of its MIG devices.
//
// A scan reads all GPUs concurrently, each in its own lane, so that it takes as long as the
// slowest. After an event only its GPU is read at once, and its verdict updated. A scan follows
// within a second, as other GPUs may have changed without an event.
type source struct {
	*state
	cfg *config
}

// Name implements [engine.Driver].
func (source) Name() string { return gpu.DriverName }

// Scan implements [engine.Driver].
func (s source) Scan(known []engine.Unit) engine.Scan {
	s.scans.Lock()
	defer s.scans.Unlock()
	if err := s.Ended.Err(); err != nil {
		return engine.Scan{Err: err} // the loop has ended; close closes the driver
	}
	began := time.Now()
	if s.uevent.Swap(false) {
		s.failures = 0
		s.renew = s.renew || len(s.mismatched) > 0
	}
	snapshot, set, isNew, err := s.read()
	if err != nil {
		return s.fail(known, err)
	}
	if s.failed != nil {
		s.log.Info("NVIDIA's driver can be read again")
	}
	s.failed, s.failures = nil, 0
	found := engine.Scan{}
	if isNew { // another scan finds changes whose events came before the subscription
		found.Next = atOnce
	}
	mismatched := s.records.Mismatches(s.cfg.host, snapshot, s.cfg.maker.MissingNode)
	settled := slices.Equal(mismatched, s.mismatched)
	if !settled {
		s.mismatched, s.renew, found.Next = mismatched, len(mismatched) > 0, atOnce
	}
	found.Problems = s.records.Overlooked(mismatched, settled, s.records.Take(snapshot, s.cfg.host))
	s.records.Give(set)
	s.groups = groupsOf(snapshot)
	if s.judge(began, slices.Collect(maps.Keys(s.records))) && found.Next == 0 {
		found.Next = gpu.SelfTestPause
	}
	s.list(&found, s.cfg, snapshot, set.Problems)
	return found
}

// read opens the driver if it is not open, reads the GPUs and makes the container edits. isNew
// reports whether the subscription to events is new.
func (s source) read() (snapshot driver.Snapshot, set *edits.Set, isNew bool, err error) {
	d := s.Use(s.cfg.driver)
	if s.renew {
		s.renew = false
		s.Release()
	}
	if err = d.Open(s.Ended); err != nil {
		return snapshot, nil, false, err
	}
	// The search for the driver's files runs meanwhile: it may take as long as reading the GPUs.
	begun := s.cfg.maker.Begin(d.Version())
	defer begun.Wait()
	if snapshot, err = d.Snapshot(s.Ended); err != nil {
		return snapshot, nil, false, err
	}
	if isNew, err = s.Subscribe(uuids(snapshot)); err != nil {
		return snapshot, nil, false, err
	}
	return snapshot, begun.Make(&snapshot), isNew, nil
}

// readEvents reads the GPUs of pending events and updates their verdicts. If it returns false, a
// scan of all GPUs is necessary instead.
func (s source) readEvents(ctx context.Context) bool {
	s.scans.Lock()
	defer s.scans.Unlock()
	d, began := s.Driver(), time.Now()
	if d == nil || ctx.Err() != nil || s.Ended.Err() != nil {
		return false
	}
	var uuids []string
	for _, e := range s.Inbox.Pending() {
		uuids = append(uuids, s.records.Of(e))
	}
	if slices.Contains(uuids, "") { // the GPU has no record, or events were lost
		return false
	}
	gpus, err := d.Read(s.Ended, uuids...)
	if err != nil {
		return false
	}
	s.judge(began, s.records.Update(gpus, s.cfg.host))
	return true
}

// judge updates the verdicts from these GPUs' records, which were read since began, and from their
// events until then. It reports whether a GPU that was lost is in its self-test.
func (s source) judge(began time.Time, uuids []string) (testing bool) {
	events := s.Inbox.Take(began, func(e driver.Event) bool {
		uuid := s.records.Of(e)
		return uuid == "" || slices.Contains(uuids, uuid)
	})
	testing = s.records.Judge(gpu.Reading{Began: began, UUIDs: uuids, Events: events, Reloaded: s.unloaded}, s.cfg.table, s.log)
	s.unloaded = false
	s.mps.Want(s.cfg.sharing(s.mps).plan(s.records, s.cfg.table))
	s.conclude(nil)
	return testing
}

// conclude stores the verdicts of all records. away, if not nil, is a fault of all GPUs.
func (s source) conclude(away *sdk.Health) {
	verdicts := map[string]gpu.Verdict{}
	if before := s.verdicts.Load(); before != nil {
		maps.Copy(verdicts, *before)
	}
	maps.Copy(verdicts, s.records.Verdicts(s.cfg.table))
	for uuid, v := range verdicts {
		v.GPU = sdk.Graver(v.GPU, away)
		verdicts[uuid] = v
	}
	s.verdicts.Store(&verdicts)
}

// fail returns the result of a scan that could not read the driver because of err. While a call
// hangs, the last scan's result stays; otherwise known GPUs have the fault driver-away until the
// driver answers. Without known GPUs it returns problems.
func (s source) fail(known []engine.Unit, err error) engine.Scan {
	if s.failed == nil || s.failed.Error() != err.Error() {
		s.log.Info("NVIDIA's driver cannot be read, trying again", "error", err)
	}
	s.failed = err
	if errors.Is(err, driver.ErrDriverGone) {
		s.Release()
	}
	if errors.Is(err, driver.ErrRestart) {
		s.exit(exitRestart)
	}
	// After these errors a driver that answers was loaded again, and has initialized the GPUs; after a
	// hang it has not.
	s.unloaded = s.unloaded || errors.Is(err, driver.ErrDriverGone) || errors.Is(err, driver.ErrNoDriver) || errors.Is(err, driver.ErrMismatch)
	pause := min(retryFirst<<min(s.failures, 10), retryLast)
	s.failures++
	found := engine.Scan{Next: pause/2 + rand.N(pause/2)}
	switch {
	case len(known) == 0:
		found.Problems, found.Away = absence(s.cfg.host, err)
	case errors.Is(err, driver.ErrNoAnswer) || s.Ended.Err() != nil:
		found.Err = err
	default:
		found.Units = known
		s.conclude(sdk.Fault("driver-away", sdk.RecoverySelf, err.Error()))
	}
	return found
}

// absence returns the problem that no GPU is listed because of err, and the GPUs on the PCI bus; nil if sysfs has no NVIDIA
// GPU.
func absence(host sdk.HostPaths, err error) (problems []engine.Problem, away map[pci.Address]string) {
	present, failed := gpu.OnBus(host.Sysfs)
	switch {
	case failed != nil:
		return []engine.Problem{{Lost: true, Err: fmt.Errorf("%w, and %w", failed, err)}}, nil
	case len(present) == 0:
		return nil, nil
	}
	away = map[pci.Address]string{}
	for _, d := range present {
		away[d.Address] = err.Error()
	}
	return []engine.Problem{{Err: fmt.Errorf("%d NVIDIA GPUs are on the PCI bus (the first at %s), but NVIDIA's driver cannot be read: %w",
		len(present), present[0].Address, err)}}, away
}

// run reads GPUs after events and asks the engine for scans, until ctx ends. It is the
// [engine.Settings.Monitor].
func (s source) run(ctx context.Context, e *engine.Engine) {
	for {
		then := engine.Known.Scan
		select {
		case <-ctx.Done():
			return
		case <-s.Inbox.Urgent:
			if !s.readEvents(ctx) {
				then = engine.Known.ScanNow
			}
		case <-s.Inbox.Lost:
			then = engine.Known.ScanNow
		case <-s.Inbox.Changed:
		case <-s.mps.Changed():
			then = func(engine.Known) { /* list again */ }
		}
		if e.Do(ctx, then) != nil {
			return
		}
	}
}

// displayController is the PCI base class of GPUs.
const displayController = 0x03

// concerns reports whether a uevent is about an NVIDIA GPU or a module of the driver. The
// properties are those of pci_uevent in drivers/pci/pci-driver.c. Modules count because loading
// nvidia binds its GPUs, and nvidia_uvm has a device node that containers need.
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

// Measure implements [engine.Measurer]. Values of a GPU in MIG mode have the UUID of the GPU, the
// parent of its MIG devices.
func (s source) Measure(u engine.Unit, _ string) (metrics []*sdk.Metric) {
	measured, err := s.Driver().Telemetry(context.Background(), u.ID) // bounded by the driver's time limit
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

func metric(device string, v driver.Value) *sdk.Metric {
	m := sdk.Gauge(device, v.Name, v.Value)
	if v.Counter {
		m = sdk.Counter(device, v.Name, v.Value)
	}
	if v.Label != "" {
		m.Labels = map[string]string{v.Label: v.LabelValue}
	}
	return m
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
