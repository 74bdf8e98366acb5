package nvidia

import (
	"context"
	"errors"
	"fmt"
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
	// retry is the pause before the next scan while the driver, or a device node, is not there.
	retry = time.Second
	// waiting is that while a GPU sends no events, or has still to join its fabric.
	waiting = 5 * time.Second
	// atOnce, as Scan.Next, requests the next scan at once.
	atOnce = time.Nanosecond
	// exitRestart is the exit status of a process that the core must start again.
	exitRestart = 3
)

// source implements [engine.Driver] with NVIDIA's driver. A unit is a GPU; a device is a GPU or one
// of its MIG devices.
//
// A scan reads all GPUs concurrently, each in its own lane, so that it takes as long as the
// slowest. After an event only its GPU is read at once; see monitor.
type source struct {
	b   *Backend
	cfg *config
}

// Name implements [engine.Driver].
func (source) Name() string { return gpu.DriverName }

// Scan implements [engine.Driver].
func (s source) Scan(known []engine.Unit) engine.Scan {
	c := s.b.conn
	c.scanning.Lock()
	defer c.scanning.Unlock()
	if err := c.ended.Err(); err != nil {
		return engine.Scan{Err: err} // the loop has ended, and the driver is closed
	}
	var before []gpu.Reading
	for _, u := range known {
		before = append(before, readingOf(u).Reading)
	}
	read, err := s.read(before)
	c.logFailure(err)
	if err != nil {
		return s.fail(known, err)
	}
	gpus, problems := gpu.Identify(read.Snapshot, before, read.mismatched, s.cfg.host)
	found := s.list(read, gpus, known)
	found.Problems = append(found.Problems, problems...)
	switch {
	case read.isNew: // another scan finds changes whose events came before the subscription
		found.Next = atOnce
	case slices.ContainsFunc(found.Units, lacksNode) || slices.ContainsFunc(problems, func(p engine.Problem) bool { return p.Lost }):
		found.Next = retry
	case slices.ContainsFunc(found.Units, func(u engine.Unit) bool { return read.waits(readingOf(u)) }):
		found.Next = waiting
	}
	s.want(found.Units)
	return found
}

// waits reports whether no event reports the next state of a GPU that answers.
func (s snapshot) waits(r reading) bool {
	err := s.unregistered[r.UUID]
	return r.Err == nil && (r.Fabric.Waits() && !r.MIGEnabled || err != nil && !errors.Is(err, driver.ErrNotSupported))
}

// lacksNode reports whether something is missing of which no event reports that it is there.
func lacksNode(u engine.Unit) bool {
	return readingOf(u).LacksNode() || slices.ContainsFunc(u.Devices, func(d engine.Device) bool { return d.EditsErr != nil })
}

// snapshot is a snapshot of the driver, and what belongs to it.
type snapshot struct {
	driver.Snapshot
	began         time.Time
	number, loads uint64
	mismatched    []gpu.Mismatch
	set           *edits.Set
	// isNew: the subscription to events is new. unregistered is why GPUs send no events, by UUID.
	isNew        bool
	unregistered map[string]error
}

// read opens the driver if it is not open, reads the GPUs and makes the container edits.
func (s source) read(known []gpu.Reading) (r snapshot, err error) {
	for range 2 { // the second time with the GPUs that there are now
		d := s.b.conn.use(s.cfg.driver)
		if err := d.Open(s.b.conn.ended); err != nil {
			return r, err
		}
		// The search for the driver's files runs meanwhile: it may take as long as reading the GPUs.
		begun := s.cfg.maker.Begin(d.Version())
		defer begun.Wait()
		r.began, r.number, r.loads = time.Now(), s.b.conn.begun.Add(1), s.b.conn.loads.Load()
		if r.Snapshot, err = d.Snapshot(s.b.conn.ended); err != nil {
			return r, err
		}
		r.mismatched = gpu.Mismatches(r.Snapshot, known, s.cfg.host, s.cfg.maker.MissingNode)
		if s.b.conn.reopen(r.mismatched) {
			continue
		}
		if r.isNew, r.unregistered, err = s.b.conn.subscribe(r.Snapshot); err != nil {
			return r, err
		}
		r.set = begun.Make(&r.Snapshot)
		return r, nil
	}
	return r, fmt.Errorf("the GPUs that NVML lists change while they are read: %w", driver.ErrNoAnswer)
}

// fail returns the result of a scan that could not read the driver because of err. While a call hangs, nothing is known;
// otherwise known GPUs have the fault driver-away until the driver answers, and others on the PCI bus could not be looked at.
func (s source) fail(known []engine.Unit, err error) engine.Scan {
	if errors.Is(err, driver.ErrDriverGone) {
		release(s.b.conn)
	}
	if errors.Is(err, driver.ErrRestart) {
		s.b.exit(exitRestart)
	}
	if len(known) > 0 && (errors.Is(err, driver.ErrNoAnswer) || s.b.conn.ended.Err() != nil) {
		return engine.Scan{Err: err, Next: retry}
	}
	found := engine.Scan{Next: retry, Absent: map[string]*sdk.Health{}}
	// After these errors a driver that answers was loaded again, and has initialized the GPUs.
	if found.Unloaded = errors.Is(err, driver.ErrDriverGone) || errors.Is(err, driver.ErrNoDriver) || errors.Is(err, driver.ErrMismatch); found.Unloaded {
		s.b.conn.loads.Add(1)
	}
	var at []string
	for _, u := range known {
		if r := readingOf(u); !r.Unplugged(s.cfg.host.Sysfs) {
			found.Absent[u.ID] = sdk.Fault("driver-away", sdk.RecoverySelf, err.Error())
			at = append(at, r.PCIBusID)
		}
	}
	if found.Problems, found.Away = absence(s.cfg.host, at, err); len(known) == 0 && len(found.Problems) == 0 {
		found.Next = 0 // there is no GPU
	}
	return found
}

// absence returns which GPUs on the PCI bus, other than the known ones, are not listed because of err, and that as a problem; nil
// if there are none.
func absence(host sdk.HostPaths, known []string, err error) (problems []engine.Problem, away map[pci.Address]string) {
	present, failed := gpu.OnBus(host.Sysfs)
	if failed != nil {
		return []engine.Problem{{Lost: true, Err: fmt.Errorf("%w, and %w", failed, err)}}, nil
	}
	present = slices.DeleteFunc(present, func(d pci.Device) bool { return slices.Contains(known, d.Address.String()) })
	if len(present) == 0 {
		return nil, nil
	}
	away = map[pci.Address]string{}
	for _, d := range present {
		away[d.Address] = err.Error()
	}
	return []engine.Problem{{Err: fmt.Errorf("%d NVIDIA GPUs are on the PCI bus (the first at %s), but NVIDIA's driver cannot be read: %w",
		len(present), present[0].Address, err)}}, away
}

// want asks for the MPS daemon that the settings want: for the GPUs that have no fault. found are those of a scan that the loop
// has not taken yet; nil for those that it knows.
func (s source) want(found []engine.Unit) {
	sharing := s.cfg.sharing(s.b.mps)
	if sharing == nil {
		s.b.mps.Want(nil)
		return
	}
	gpus := map[string]uint64{}
	if err := s.b.Do(s.b.conn.ended, func(known engine.Known) {
		memories := map[string]*gpu.Memory{}
		for _, u := range known.Units() {
			memories[u.Unit.ID] = memoryOf(u, s.cfg)
			if found == nil {
				r := memories[u.Unit.ID].Reading
				sharing.add(gpus, r, memories[u.Unit.ID].FaultyAfter(r, s.cfg.checks))
			}
		}
		for _, u := range found {
			r, m := readingOf(u).Reading, memories[u.ID]
			if m == nil {
				m = gpu.NewMemory()
			}
			sharing.add(gpus, r, m.FaultyAfter(r, s.cfg.checks))
		}
	}); err == nil {
		s.b.mps.Want(sharing.config.Plan(gpus))
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
	measured, err := s.b.conn.driver.Load().Telemetry(context.Background(), u.ID) // bounded by the driver's time limit
	if err != nil {
		s.b.log.Debug("the GPU cannot be measured", "device", u.ID, "error", err)
	}
	for _, m := range measured {
		if m.Err != nil {
			s.b.log.Debug("not all can be measured", "device", m.GPU, "error", m.Err)
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
