package nvidia

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The classes of devices.
const (
	classGPU = "gpu"
	// classMIG is a MIG device, unless the strategy is single.
	classMIG = "mig"
)

// strategy says which devices MIG makes, in the words of NVIDIA's own plugin.
type strategy string

const (
	// migNone: GPUs are listed as a whole, whatever MIG mode they are in.
	migNone strategy = "none"
	// migSingle: MIG devices are listed as GPUs; all must be of one profile.
	migSingle strategy = "single"
	// migMixed: MIG devices are a class of their own, beside whole GPUs that are
	// not in MIG mode.
	migMixed strategy = "mixed"
)

// listing makes devices of what is known.
type listing struct {
	strategy strategy
	versions versions
	links    map[string][]*sdk.Link // by UUID
	groups   map[string]string      // reset groups, by UUID
	table    *xid.Table
	mps      *sharing
	// away is why the driver cannot be asked now; nil if it can.
	away     error
	problems []string
	// prepared says that Prepare has something to do.
	prepared bool
}

// versions are the driver's.
type versions struct{ driver, cuda string }

// devices are all devices in a stable order, and what could not be listed.
func (l *listing) devices(r *roster) ([]*sdk.Device, []string) {
	l.problems = append(append(l.problems, r.strangers...), l.mps.strangers(r)...)
	gpus := r.sorted()
	var devices []*sdk.Device
	for _, known := range gpus {
		l.unclear(known)
		l.fabric(known)
		if l.strategy == migNone || !known.gpu.MIGEnabled {
			devices = append(devices, l.gpu(known))
			continue
		}
		for _, instance := range known.gpu.Instances {
			devices = append(devices, l.instance(known, instance))
		}
		if len(known.gpu.Instances) == 0 && known.gpu.Err == nil {
			l.problems = append(l.problems, known.gpu.UUID+": the GPU is in MIG mode and has no MIG devices, so neither it nor a part of it is listed: "+
				"create them (nvidia-smi mig -cgi <profiles> -C), or switch MIG mode off (nvidia-smi -mig 0)")
		}
	}
	dropLinks(devices)
	if l.strategy == migSingle {
		devices = l.alike(gpus, devices)
	}
	return devices, l.problems
}

// dropLinks drops links to GPUs that are not listed, such as those in MIG mode.
func dropLinks(devices []*sdk.Device) {
	listed := map[string]bool{}
	for _, d := range devices {
		listed[d.GetId()] = true
	}
	for _, d := range devices {
		d.Links = slices.DeleteFunc(slices.Clone(d.GetLinks()), func(link *sdk.Link) bool { return !listed[link.GetPeerId()] })
	}
}

// fabric reports problems of a GPU's NVLink fabric that are not faults of the GPU: it can
// still be used on its own.
func (l *listing) fabric(known *record) {
	g := known.gpu
	switch f := g.Fabric; {
	case g.Err != nil || f == nil:
	case f.Err != nil:
		l.problems = append(l.problems, g.UUID+": the GPU did not join its NVLink fabric, so it has no NVLinks to other GPUs: "+f.Err.Error()+
			"; see the log of the fabric manager, then reset the GPU")
	case !f.Joined():
		l.problems = append(l.problems, g.UUID+": the GPU has not joined its NVLink fabric yet ("+f.State+
			"), and CUDA programs may fail until it has: is nvidia-fabricmanager running?")
	case is(g.Condition.FabricLimited):
		l.problems = append(l.problems, g.UUID+": the GPU's NVLink fabric has limited capacity: see nvidia-smi -q (Fabric)")
	}
}

// unclear tells of a GPU whose health nobody knows. That is no fault, so without
// a word of it nothing would show.
func (l *listing) unclear(known *record) {
	health := l.health(known)
	if health.GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN {
		l.problems = append(l.problems, known.gpu.UUID+": how the GPU is cannot be told now, so it stays as it was: "+health.GetMessage())
	}
}

// alike leaves out what does not fit to the strategy single: a container that
// asks for a GPU must always get the same.
func (l *listing) alike(gpus []*record, devices []*sdk.Device) []*sdk.Device {
	profiles := map[string]bool{}
	for _, known := range gpus {
		if !known.gpu.MIGEnabled {
			profiles["whole GPUs"] = true
			continue
		}
		for _, instance := range known.gpu.Instances {
			profiles[instance.Profile] = true
		}
	}
	if len(profiles) <= 1 {
		return devices
	}
	l.problems = append(l.problems, "the MIG strategy single needs MIG devices that are all alike, but there are "+
		joined(profiles)+": make them alike, or use the strategy mixed; nothing is listed meanwhile")
	return nil
}

// gpu is a whole GPU.
func (l *listing) gpu(known *record) *sdk.Device {
	g := known.gpu
	d := l.base(known, g.UUID, classGPU, g.MemoryBytes)
	d.Health = l.health(known)
	// With the strategy none the MIG devices are not listed, so the GPU shows their faults.
	d.Health = sdk.Graver(d.Health, known.worst(known.hasInstance))
	d.Links = l.links[g.UUID]
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
	if l.mps.shareable(known) {
		l.mps.share(d)
	}
	return d
}

// instance is a MIG device. A fault of its GPU is its own, which the core sees by
// the parent.
func (l *listing) instance(known *record, i driver.Instance) *sdk.Device {
	class := classMIG
	if l.strategy == migSingle {
		class = classGPU
	}
	d := l.base(known, i.UUID, class, i.MemoryBytes)
	d.ParentId = known.gpu.UUID
	d.Health = known.instanceHealth(i)
	if gpu := l.health(known); gpu.GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY {
		// The GPU itself is not listed, so its health is told here.
		d.Health = sdk.Graver(d.Health, gpu)
	}
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

// base is what GPUs and MIG devices have in common.
func (l *listing) base(known *record, id, class string, memory uint64) *sdk.Device {
	g := known.gpu
	d := &sdk.Device{
		Id: id, Class: class, PciBusId: g.PCIBusID, ResetGroup: cmp.Or(l.groups[g.UUID], g.UUID),
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
	text("driverVersionText", l.versions.driver)
	if v := sdk.Semantic(l.versions.driver); v != "" {
		d.Attributes["driverVersion"] = sdk.Version(v)
	}
	if v := sdk.Semantic(l.versions.cuda); v != "" {
		d.Attributes["cudaVersion"] = sdk.Version(v)
	}
	if g.ComputeMajor > 0 {
		d.Attributes["computeCapability"] = sdk.Version(fmt.Sprintf("%d.%d.0", g.ComputeMajor, g.ComputeMinor))
	}
	if memory > 0 {
		d.Capacities["memory"] = int64(min(memory, math.MaxInt64))
	}
	if known.at.NUMANode >= 0 && known.at.Vendor != 0 {
		d.NumaNodes = []uint32{uint32(known.at.NUMANode)}
	}
	if l.prepared {
		d.Hooks = []backendv1.Hook{sdk.HookPrepare}
	}
	given := known.given[id]
	d.Edits = given.edits
	if given.err != nil {
		l.problems = append(l.problems, id+": no container can be given the device yet: "+given.err.Error())
	}
	return d
}

// health is that of the whole GPU, also while the driver is away.
func (l *listing) health(known *record) *sdk.Health {
	own := known.health(l.table)
	switch {
	case l.away == nil:
		return own
	case errors.Is(l.away, driver.ErrNoAnswer):
		own = sdk.Graver(sdk.Unknown(l.away.Error()), own)
	default:
		own = sdk.Graver(own, sdk.Fault("driver-away", sdk.RecoverySelf, l.away.Error()))
	}
	return own
}

// model is the name without the vendor's, which every GPU has.
func model(name string) string { return strings.TrimPrefix(name, "NVIDIA ") }

// linksOf returns a snapshot's links as the contract has them, in both directions: NVLinks,
// and in addition the path over PCIe.
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

// groupsOf are the GPUs that lose their state together in a reset: those that
// NVLinks join without a switch. Each group has the name of its first UUID.
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
