package nvidia

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/nvidia/labels"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// vendor judges and describes GPUs for the engine, for one configuration. Its methods run
// in the engine's loop.
type vendor struct {
	cfg *config
	b   *Backend
}

// memory is what is remembered of a GPU. It is used only in the engine's loop.
type memory struct {
	*gpu.Memory
	// renewals is [engine.KnownUnit.Renewals] when the memory was used last.
	renewals uint64
}

// memoryOf returns the memory of a GPU with its last reading, without events from before its last reset or the last load of
// its driver.
func memoryOf(u *engine.KnownUnit, cfg *config) *gpu.Memory {
	m, ok := u.Memory.(*memory)
	if !ok {
		m = &memory{gpu.NewMemory(), u.Renewals()}
		u.Memory = m
	}
	m.take(u, readingOf(u.Unit).Reading, cfg)
	return m.Memory
}

// take takes a reading of the GPU. What initialized it is evidence of recovery.
func (m *memory) take(u *engine.KnownUnit, r gpu.Reading, cfg *config) {
	if m.renewals != u.Renewals() {
		m.Renew(r)
	}
	if m.Take(r, cfg.checks) {
		u.EndReset()
		m.Renew(r)
	}
	m.renewals = u.Renewals()
}

// The classes of devices.
const (
	classGPU = "gpu"
	// classMIG is a MIG device, unless the strategy is single.
	classMIG = "mig"
)

// Faults implements [engine.Vendor]. A fault of the GPU is also one of its MIG devices. If a
// GPU in MIG mode is listed as a whole, it shows the faults of its MIG devices.
func (v vendor) Faults(d *engine.KnownDevice) (own, shared *sdk.Health) {
	m := memoryOf(d.Unit, v.cfg)
	whole := m.Health(v.cfg.checks)
	if i := instanceOf(d.Read); i != nil {
		return m.Instance(*i), whole
	}
	return sdk.Graver(whole, m.Partial()), sdk.Graver(whole, v.cfg.sharing(v.b.mps).fault(m.GPU))
}

// Uevent implements [engine.EventReader]. If NVML does not list a GPU, or still lists a removed
// one, the next scan opens the driver again: another GPU may have that address now.
func (v vendor) Uevent(uevent.Event, engine.Known) { v.b.conn.retry.Store(true) }

// Problems implements [engine.Counter].
func (vendor) Problems(u *engine.KnownUnit) []string { return readingOf(u.Unit).problems }

// Sensed implements [engine.Counter]. Sensors are only read for telemetry.
func (vendor) Sensed(*engine.KnownUnit, any) (changed bool) { return false }

// Count implements [engine.Counter]: the XIDs by code.
func (v vendor) Count(u *engine.KnownUnit, device string) (metrics []*sdk.Metric) {
	counts := memoryOf(u, v.cfg).XIDs()
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		metrics = append(metrics, metric(device, driver.Value{Name: "xid_errors_total", Counter: true,
			Value: float64(counts[code]), Label: "xid", LabelValue: code}))
	}
	return metrics
}

// NodeLabels implements [engine.Labeler].
func (v vendor) NodeLabels(units []*engine.KnownUnit) []*sdk.NodeLabel {
	if len(units) == 0 {
		return nil
	}
	sharing, versions := v.cfg.sharing(v.b.mps), readingOf(units[0].Unit).versions
	n := labels.Node{
		DriverVersion: versions.driver, CUDAVersion: versions.cuda, MIGStrategy: labelOf(v.cfg.strategy), MPS: v.cfg.mps != nil,
	}
	for _, u := range units {
		g := labels.GPU{GPU: readingOf(u.Unit).GPU, MPS: sharing.shareable(readingOf(u.Unit).GPU)}
		if u.Unit.PCI != nil {
			g.Class = u.Unit.PCI.Class
		}
		n.GPUs = append(n.GPUs, g)
	}
	return v.cfg.labels.Labels(n)
}

// List implements [engine.Vendor].
func (v vendor) List(d *engine.KnownDevice) (*sdk.Device, []string) {
	r, instance := readingOf(d.Unit.Unit), instanceOf(d.Stable)
	if p := partitionOf(d.Read); p != nil {
		return v.partition(r, d.Read.ID, p), nil
	}
	if instance != nil {
		device := v.instance(r, instance)
		if shared, ok := d.Stable.Vendor.(*sharedInstance); ok {
			device.Consumes = []*backendv1.CounterConsumption{shared.of.consumes(r.UUID)}
		}
		return device, nil
	}
	device := v.gpu(r)
	v.cfg.sharing(v.b.mps).describe(device, r.GPU)
	if v.cfg.slices(r.GPU) {
		v.cfg.slicing.describe(device, r.MemoryBytes)
	}
	return device, nil
}

// gpu describes a whole GPU.
func (v vendor) gpu(r reading) *sdk.Device {
	g := r.GPU
	d := v.base(r, g.UUID, classGPU, g.MemoryBytes)
	d.Attributes["type"] = sdk.String("gpu")
	d.Links = r.links
	if g.PowerLimitWatts > 0 {
		d.Capacities["powerLimit"] = int64(g.PowerLimitWatts)
	}
	if g.Serial != "" {
		d.Attributes["serial"] = sdk.String(g.Serial)
	}
	if g.Minor >= 0 {
		d.Attributes["minor"] = sdk.Int(int64(g.Minor))
	}
	if f := g.Fabric; f.Joined() && f.ClusterUUID != "" {
		d.Attributes["fabricCluster"] = sdk.String(f.ClusterUUID)
		d.Attributes["fabricClique"] = sdk.Int(int64(f.Clique))
	}
	return d
}

// instance describes a MIG device.
func (v vendor) instance(r reading, i *driver.Instance) *sdk.Device {
	class := classMIG
	if v.cfg.strategy == migSingle {
		class = classGPU
	}
	d := v.base(r, i.UUID, class, i.MemoryBytes)
	d.ParentId = r.UUID
	d.Attributes["type"], d.Attributes["parentUUID"] = sdk.String("mig"), sdk.String(r.UUID)
	d.Attributes["profile"] = sdk.String(i.Profile)
	d.Attributes["gpuInstance"] = sdk.Int(int64(i.GPUInstance))
	d.Attributes["computeInstance"] = sdk.Int(int64(i.ComputeInstance))
	if i.EnginesKnown {
		for name, amount := range map[string]uint32{
			"multiprocessors": i.Multiprocessors, "copyEngines": i.CopyEngines, "decoders": i.Decoders,
			"encoders": i.Encoders, "jpegEngines": i.JPEGEngines, "ofaEngines": i.OFAEngines,
		} {
			d.Capacities[name] = int64(amount)
		}
	}
	if at := i.Placement; at != nil {
		for n := range min(at.Size, maxSlices) {
			d.Capacities[fmt.Sprintf("memorySlice%d", at.Start+n)] = 1
		}
	}
	return d
}

// maxSlices bounds the slices of memory of a MIG device; a GPU has 8.
const maxSlices = 8

// base describes what GPUs and MIG devices have in common.
func (v vendor) base(r reading, id, class string, memory uint64) *sdk.Device {
	g := r.GPU
	d := &sdk.Device{
		Class: class,
		Attributes: map[string]*sdk.Attribute{
			"uuid": sdk.String(id), "model": sdk.String(model(g.Name)), "productName": sdk.String(g.Name),
			"migEnabled": sdk.Bool(g.MIGEnabled),
		},
		Capacities: map[string]int64{},
	}
	text := func(name, value string) {
		if value != "" {
			d.Attributes[name] = sdk.String(value)
		}
	}
	text("architecture", g.Architecture)
	text("brand", g.Brand)
	text("addressingMode", g.AddressingMode)
	text("driverVersionFull", r.versions.driver)
	if v := sdk.Semantic(r.versions.driver); v != "" {
		d.Attributes["driverVersion"] = sdk.Version(v)
	}
	if v := sdk.Semantic(r.versions.cuda); v != "" {
		d.Attributes["cudaDriverVersion"] = sdk.Version(v)
	}
	if g.ComputeMajor > 0 {
		d.Attributes["cudaComputeCapability"] = sdk.Version(fmt.Sprintf("%d.%d.0", g.ComputeMajor, g.ComputeMinor))
	}
	if memory > 0 {
		d.Capacities["memory"] = int64(min(memory, math.MaxInt64))
	}
	if v.cfg.prepare.wanted() {
		d.Hooks = []backendv1.Hook{sdk.HookPrepare}
	}
	return d
}

// model returns the name without "NVIDIA", which every GPU's name has.
func model(name string) string { return strings.TrimPrefix(name, "NVIDIA ") }
