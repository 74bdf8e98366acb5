package nvidia

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The classes of devices.
const (
	classGPU = "gpu"
	// classMIG is a MIG device, unless the strategy is single.
	classMIG = "mig"
)

// strategy selects how MIG devices are listed, by the names of NVIDIA's own plugin.
type strategy string

const (
	// migNone: GPUs are listed as a whole, in MIG mode or not.
	migNone strategy = "none"
	// migSingle: MIG devices are listed as GPUs; all must be of one profile.
	migSingle strategy = "single"
	// migMixed: MIG devices are a class of their own, besides whole GPUs that are
	// not in MIG mode.
	migMixed strategy = "mixed"
)

// versions has the versions of the driver.
type versions struct{ driver, cuda string }

// list adds the GPUs to a scan, with the devices that the strategy makes of them, and
// problems of the node.
func (s source) list(found *engine.Scan, snapshot driver.Snapshot) {
	links, profiles := linksOf(snapshot.Links), map[string]bool{}
	for _, uuid := range slices.Sorted(maps.Keys(s.records)) {
		k := s.records[uuid]
		r := reading{
			gpu: k.gpu, versions: versions{snapshot.DriverVersion, snapshot.CUDAVersion}, links: links[k.gpu.UUID],
			health: k.health(s.cfg.table), xids: maps.Clone(k.xids), problems: fabric(k.gpu),
		}
		unit := engine.Unit{ID: k.gpu.UUID, Board: s.group(k.gpu.UUID), Dir: "bus/pci/devices/" + cmp.Or(k.gpu.PCIBusID, k.gpu.UUID)}
		if k.gpu.PCIBusID != "" {
			unit.PCI = new(k.at)
		}
		switch {
		case s.cfg.strategy == migNone || !k.gpu.MIGEnabled:
			// With the strategy none MIG devices are not listed, so the GPU shows their faults.
			unit.Devices = []engine.Device{s.device(k, k.gpu.UUID, part{nil, sdk.Graver(r.health, k.worst(k.hasInstance))})}
			profiles["whole GPUs"] = true
		case len(k.gpu.Instances) == 0 && k.gpu.Err == nil:
			r.problems = append(r.problems, k.gpu.UUID+": the GPU is in MIG mode and has no MIG devices, so neither it nor a part of it is listed: "+
				"create them (nvidia-smi mig -cgi <profiles> -C), or switch MIG mode off (nvidia-smi -mig 0)")
		}
		if len(unit.Devices) == 0 {
			for i, instance := range k.gpu.Instances {
				d := s.device(k, instance.UUID, part{&instance, k.instanceHealth(instance)})
				d.Number = i
				unit.Devices = append(unit.Devices, d)
				profiles[instance.Profile] = true
			}
		}
		unit.Vendor = r
		found.Units = append(found.Units, unit)
	}
	for _, text := range slices.Concat(s.made.problems(), s.cfg.sharing(s.mps).impossible(s.records)) {
		found.Problems = append(found.Problems, engine.Problem{Err: errors.New(text)})
	}
	if s.cfg.strategy == migSingle && len(profiles) > 1 {
		s.alike(found, profiles)
	}
}

// device returns the device for the GPU or for one of its MIG devices.
func (s source) device(k *record, id string, p part) engine.Device {
	return engine.Device{
		ID: id, Name: id, ResetGroup: s.group(k.gpu.UUID), Busy: errors.Is(k.gpu.Err, errNotBack),
		Edits: s.cfg.sharing(s.mps).edits(k.given[id].edits, k.gpu), EditsErr: k.given[id].err, Vendor: p,
	}
}

// group returns the reset group of a GPU.
func (s source) group(uuid string) string { return cmp.Or(s.groups[uuid], uuid) }

// fabric returns problems of a GPU's NVLink fabric that are not faults of the GPU, because it
// can still be used alone.
func fabric(g driver.GPU) []string {
	switch f := g.Fabric; {
	case g.Err != nil || f == nil:
	case f.Err != nil:
		return []string{g.UUID + ": the GPU did not join its NVLink fabric, so it has no NVLinks to other GPUs: " + f.Err.Error() +
			"; see the log of the fabric manager, then reset the GPU"}
	case !f.Joined():
		return []string{g.UUID + ": the GPU has not joined its NVLink fabric yet (" + f.State +
			"), and CUDA programs may fail until it has: is nvidia-fabricmanager running?"}
	case is(g.Condition.FabricLimited):
		return []string{g.UUID + ": the GPU's NVLink fabric has limited capacity: see nvidia-smi -q (Fabric)"}
	}
	return nil
}

// alike lists no devices, since there are several profiles: with the strategy single, all
// containers that request a GPU must get the same kind.
func (source) alike(found *engine.Scan, profiles map[string]bool) {
	for i := range found.Units {
		found.Units[i].Devices = nil
	}
	found.Problems = append(found.Problems, engine.Problem{Err: fmt.Errorf(
		"the MIG strategy single needs MIG devices that are all alike, but there are %s: make them alike, or use the strategy mixed; nothing is listed meanwhile",
		strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))})
}

// List implements [engine.Vendor].
func (v vendor) List(d *engine.KnownDevice) (*sdk.Device, []string) {
	r, instance := readingOf(d.Unit.Unit), partOf(d.Stable).instance
	if instance != nil {
		return v.instance(r, instance), nil
	}
	device := v.gpu(r)
	v.cfg.sharing(v.gpus.mps).describe(device, r.gpu)
	return device, nil
}

// gpu describes a whole GPU.
func (v vendor) gpu(r reading) *sdk.Device {
	g := r.gpu
	d := v.base(r, g.UUID, classGPU, g.MemoryBytes)
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
	d.ParentId = r.gpu.UUID
	d.Attributes["profile"] = sdk.String(i.Profile)
	d.Attributes["gpuInstance"] = sdk.Int(int64(i.GPUInstance))
	d.Attributes["computeInstance"] = sdk.Int(int64(i.ComputeInstance))
	for name, amount := range map[string]uint32{
		"multiprocessors": i.Multiprocessors, "copyEngines": i.CopyEngines, "decoders": i.Decoders,
		"encoders": i.Encoders, "jpegEngines": i.JPEGEngines, "ofaEngines": i.OFAEngines,
	} {
		if amount > 0 {
			d.Capacities[name] = int64(amount)
		}
	}
	return d
}

// base describes what GPUs and MIG devices have in common.
func (v vendor) base(r reading, id, class string, memory uint64) *sdk.Device {
	g := r.gpu
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
	text("driverVersionText", r.versions.driver)
	if v := sdk.Semantic(r.versions.driver); v != "" {
		d.Attributes["driverVersion"] = sdk.Version(v)
	}
	if v := sdk.Semantic(r.versions.cuda); v != "" {
		d.Attributes["cudaVersion"] = sdk.Version(v)
	}
	if g.ComputeMajor > 0 {
		d.Attributes["computeCapability"] = sdk.Version(fmt.Sprintf("%d.%d.0", g.ComputeMajor, g.ComputeMinor))
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

// linksOf returns a snapshot's links as the contract defines them, in both directions: NVLinks,
// and also the paths over PCIe.
func linksOf(links []driver.Link) map[string][]*sdk.Link {
	of := map[string][]*sdk.Link{}
	add := func(l driver.Link, kind backendv1.LinkKind, count uint32) {
		of[l.A] = append(of[l.A], &sdk.Link{PeerId: l.B, Kind: kind, Count: count})
		of[l.B] = append(of[l.B], &sdk.Link{PeerId: l.A, Kind: kind, Count: count})
	}
	for _, l := range links {
		add(l, l.Kind, l.Count)
		if l.Path != backendv1.LinkKind_LINK_KIND_UNSPECIFIED {
			add(l, l.Path, 1)
		}
	}
	return of
}

// groupsOf returns the reset groups by UUID: GPUs that NVLinks connect without a switch lose
// their state together in a reset. The name of a group is its first UUID.
func groupsOf(links []driver.Link) map[string]string {
	group := map[string]string{}
	find := func(uuid string) string {
		for group[uuid] != "" && group[uuid] != uuid {
			uuid = group[uuid]
		}
		return uuid
	}
	for _, l := range links {
		if l.Kind != backendv1.LinkKind_LINK_KIND_NVLINK {
			continue
		}
		a, b := find(l.A), find(l.B)
		group[max(a, b)] = min(a, b)
		group[min(a, b)] = min(a, b)
	}
	flat := map[string]string{}
	for uuid := range group {
		flat[uuid] = find(uuid)
	}
	return flat
}
