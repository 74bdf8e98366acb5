package nvidia

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// partition is a MIG device of the strategy dynamic: a profile in one of its placements. It has a GPU
// instance and one compute instance of the same size, if it exists.
type partition struct {
	profile driver.Profile
	at      driver.Placement
	// exists: its GPU instance does. instance is its MIG device; nil while it has no compute instance.
	exists   bool
	instance *driver.Instance
}

func partitionOf(d engine.Device) *partition {
	p, _ := d.Vendor.(*partition)
	return p
}

// sharedInstance is a MIG device that was made by hand in a GPU instance which it does not have alone. One of
// these devices consumes what the GPU instance does.
type sharedInstance struct {
	*driver.Instance
	of *partition
}

// partitions returns the devices of a GPU in MIG mode, with the strategy dynamic. The scheduler takes the first
// that is free and fits, so of a profile those come first that leave the lower slices to larger profiles.
func (l lister) partitions(r *reading) (all []engine.Device) {
	g := r.GPU
	if len(g.Profiles) == 0 && g.Err == nil {
		r.problems = append(r.problems, g.UUID+": the driver does not report which MIG devices the GPU can have, so none can be made for claims")
	}
	add := func(d engine.Device) {
		d.Number = len(all)
		all = append(all, d)
	}
	for _, profile := range g.Profiles {
		at := slices.SortedFunc(slices.Values(profile.Placements), func(a, b driver.Placement) int { return int(b.Start) - int(a.Start) })
		for _, at := range at {
			p := &partition{profile: profile, at: at}
			instances := p.find(g)
			if len(instances) > 1 || len(instances) == 1 && instances[0].ComputeSlices < profile.Slices {
				for i := range instances {
					d := l.device(g, instances[i].UUID, &instances[i])
					if i == 0 {
						d.Vendor = &sharedInstance{&instances[i], p}
					}
					add(d)
				}
				continue
			}
			d := engine.Device{ID: p.id(g.UUID), ResetGroup: l.group(g.UUID), Vendor: p}
			if len(instances) == 1 {
				p.instance = &instances[0]
				d.Edits, d.EditsErr = l.edits(g, d.ID, p.instance.UUID)
			} else if p.exists && l.cfg.made.Holder(d.ID) == "" { // else it is being made or destroyed
				d.EditsErr = errors.New("its GPU instance has no compute instance: create one, or destroy the GPU instance (nvidia-smi mig -dgi)")
			}
			if !p.exists { // for monitors; that the GPU has none is a problem when the partition is made
				d.Edits, _ = l.edits(g, d.ID, g.UUID)
			}
			d.Name = d.ID
			add(d)
		}
	}
	return all
}

// pendingMode returns the problem that a GPU's MIG mode changes with its next reset; none if it does not.
func pendingMode(g driver.GPU) []string {
	if g.Err != nil || g.MIGPending == g.MIGEnabled {
		return nil
	}
	now, then, cancel := "on", "off", 1
	if g.MIGPending {
		now, then, cancel = "off", "on", 0
	}
	return []string{fmt.Sprintf("%s: MIG mode is %s, and will be %s after the next reset of the GPU: end its containers and reset it "+
		"(nvidia-smi --gpu-reset -i %[1]s), or cancel the change (nvidia-smi -i %[1]s -mig %[4]d)", g.UUID, now, then, cancel)}
}

// find finds the GPU instance of the partition, and returns its MIG devices.
func (p *partition) find(g driver.GPU) (all []driver.Instance) {
	i := slices.IndexFunc(g.GPUInstances, func(gi driver.GPUInstance) bool {
		return gi.Profile == p.profile.Name && gi.Placement.Start == p.at.Start
	})
	if p.exists = i >= 0; !p.exists {
		return nil
	}
	for _, instance := range g.Instances {
		if instance.GPUInstance == g.GPUInstances[i].ID {
			all = append(all, instance)
		}
	}
	return all
}

// id returns the ID of the partition of a GPU, which is the same whether it exists or not.
func (p *partition) id(gpu string) string {
	return fmt.Sprintf("%s-%s-%d", gpu, strings.NewReplacer("+", ".", "-", ".no-").Replace(p.profile.Name), p.at.Start)
}

// forgetPartitions removes from the record what no longer exists, once in a process: Prepare was not called
// yet. MIG devices do not outlive a reboot.
func (s source) forgetPartitions(gpus []driver.GPU, units []engine.Unit) {
	if s.cfg.made == nil || s.b.forgotten.Load() {
		return
	}
	// One that cannot be read may have no unit.
	read := !slices.ContainsFunc(gpus, func(g driver.GPU) bool { return g.Err != nil })
	exists := map[string]bool{}
	for _, unit := range units {
		read = read && readingOf(unit).Err == nil
		for _, d := range unit.Devices {
			p := partitionOf(d)
			exists[d.ID] = p != nil && p.exists
		}
	}
	if !read {
		return
	}
	s.b.forgotten.Store(true)
	var gone []string
	for id := range s.cfg.made.Devices() {
		if !exists[id] {
			gone = append(gone, id)
		}
	}
	if err := s.cfg.made.Remove(gone...); err != nil {
		s.b.log.Warn("MIG devices that are gone stay in the record", "devices", gone, "error", err)
	}
}

// partition describes a partition. One that was made for a claim has the attributes that it has before and
// after, or its slice would be written when it is made and when it is destroyed.
func (v vendor) partition(r reading, id string, p *partition) *sdk.Device {
	var holder string
	if p.exists {
		holder = v.cfg.made.Holder(id)
	}
	var d *sdk.Device
	if p.instance != nil && holder == "" {
		d = v.instance(r, p.instance)
	} else {
		d = v.instance(r, &driver.Instance{
			MemoryBytes: p.profile.MemoryBytes, Multiprocessors: p.profile.Multiprocessors, CopyEngines: p.profile.CopyEngines,
			Decoders: p.profile.Decoders, Encoders: p.profile.Encoders, JPEGEngines: p.profile.JPEGEngines, OFAEngines: p.profile.OFAEngines,
			EnginesKnown: true,
		})
		for _, name := range []string{"uuid", "gpuInstance", "computeInstance"} {
			delete(d.Attributes, name)
		}
	}
	d.Attributes["profile"] = sdk.String(p.profile.Name)
	d.Hooks = []sdk.Hook{sdk.HookPrepare, sdk.HookRelease}
	d.Consumes = []*backendv1.CounterConsumption{p.consumes(r.UUID)}
	d.Potential, d.MadeFor = !p.exists, holder
	return d
}

// setOf returns the name of a GPU's counter set.
func setOf(gpu string) string { return strings.ToLower(gpu) }

// consumes returns what the partition consumes: the slices of memory where it is, and of what has no place, how
// many it takes.
func (p *partition) consumes(gpu string) *backendv1.CounterConsumption {
	counters := map[string]int64{}
	for i := range p.at.Size {
		counters[memorySlice(p.at.Start+i)] = 1
	}
	for name, amount := range amounts(p.profile) {
		if amount > 0 {
			counters[name] = int64(amount)
		}
	}
	return &backendv1.CounterConsumption{CounterSet: setOf(gpu), Counters: counters}
}

func memorySlice(i uint32) string { return fmt.Sprintf("memory-slice-%d", i) }

// amounts are those of a profile that the GPU has a limited number of. Copy engines and multiprocessors
// follow from the slices.
func amounts(p driver.Profile) map[string]uint32 {
	return map[string]uint32{"compute-slices": p.Slices, "decoders": p.Decoders, "jpeg-engines": p.JPEGEngines, "ofa-engines": p.OFAEngines}
}

// CounterSets implements [engine.Divider]. The driver does not report how much there is; it is what the most
// demanding set of alike partitions takes.
func (v vendor) CounterSets(units []*engine.KnownUnit) (sets []*sdk.CounterSet) {
	if v.cfg.strategy != migDynamic {
		return nil
	}
	for _, u := range units {
		g, counters := readingOf(u.Unit).GPU, map[string]int64{}
		for _, p := range g.Profiles {
			for _, at := range p.Placements {
				for i := range at.Size {
					counters[memorySlice(at.Start+i)] = 1
				}
			}
			for name, amount := range amounts(p) {
				if all := int64(amount) * int64(p.Instances); all > counters[name] {
					counters[name] = all
				}
			}
		}
		if g.MIGEnabled && len(counters) > 0 {
			sets = append(sets, &sdk.CounterSet{Name: setOf(g.UUID), Counters: counters})
		}
	}
	return sets
}

// labelOf returns the value of the label nvidia.com/mig.strategy: NVIDIA's tools have no strategy dynamic.
func labelOf(s strategy) string {
	if s == migDynamic {
		s = migMixed
	}
	return string(s)
}
