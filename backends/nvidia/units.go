package nvidia

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// versions has the versions of the driver.
type versions struct{ driver, cuda string }

// reading is what a scan found of a GPU, for [engine.Unit]. It never changes. [engine.Device] has
// the *driver.Instance, or the *partition; nil for the whole GPU.
type reading struct {
	gpu      driver.GPU
	versions versions
	links    []*sdk.Link
	// problems are problems of the GPU that are no faults.
	problems []string
}

func readingOf(u engine.Unit) reading {
	r, _ := u.Vendor.(reading)
	return r
}

func instanceOf(d engine.Device) *driver.Instance {
	switch of := d.Vendor.(type) {
	case *driver.Instance:
		return of
	case *sharedInstance:
		return of.Instance
	case *partition:
		return of.instance
	}
	return nil
}

// list adds the GPUs to a scan, with the devices that the strategy makes of them, and
// problems of the node. The other problems are those of the container edits.
func (s *state) list(found *engine.Scan, cfg *config, snapshot driver.Snapshot, problems []string) {
	links, profiles := linksOf(snapshot.Links), map[string]bool{}
	for _, uuid := range slices.Sorted(maps.Keys(s.records)) {
		k, g := s.records[uuid], s.records[uuid].GPU
		r := reading{gpu: g, versions: versions{snapshot.DriverVersion, snapshot.CUDAVersion}, links: links[g.UUID], problems: append(fabric(g), pendingMode(g)...)}
		unit := engine.Unit{ID: g.UUID, Board: s.group(g.UUID), Dir: "bus/pci/devices/" + cmp.Or(g.PCIBusID, g.UUID)}
		if g.PCIBusID != "" {
			unit.PCI = new(k.At)
		}
		add := func(id string, i *driver.Instance) {
			unit.Devices = append(unit.Devices, s.device(cfg, k, id, i))
		}
		switch {
		case cfg.strategy == migNone || !g.MIGEnabled:
			add(g.UUID, nil)
			profiles["whole GPUs"] = true
		case cfg.strategy == migDynamic:
			unit.Devices = s.partitions(cfg, k, &r)
		case len(g.Instances) == 0 && g.Err == nil:
			r.problems = append(r.problems, g.UUID+": the GPU is in MIG mode and has no MIG devices, so neither it nor a part of it is listed: "+
				"create them (nvidia-smi mig -cgi <profiles> -C), or switch MIG mode off (nvidia-smi -mig 0)")
		default:
			for n, i := range g.Instances {
				add(i.UUID, &i)
				unit.Devices[n].Number = n
				profiles[i.Profile] = true
			}
		}
		unit.Vendor = r
		found.Units = append(found.Units, unit)
	}
	s.forgetPartitions(cfg, snapshot.GPUs, found.Units)
	for _, text := range slices.Concat(problems, cfg.sharing(s.mps).impossible(s.records)) {
		found.Problems = append(found.Problems, engine.Problem{Err: errors.New(text)})
	}
	if cfg.strategy == migSingle && len(profiles) > 1 {
		alike(found, profiles)
	}
}

// device returns the device for the GPU or for one of its MIG devices.
func (s *state) device(cfg *config, k *gpu.Record, id string, i *driver.Instance) engine.Device {
	edits, err := k.Edits(id)
	return engine.Device{
		ID: id, Name: id, ResetGroup: s.group(k.GPU.UUID), Busy: k.Resetting(),
		Edits: cfg.sharing(s.mps).edits(edits, k.GPU), EditsErr: err, Vendor: i,
	}
}

// group returns the reset group of a GPU.
func (s *state) group(uuid string) string { return cmp.Or(s.groups[uuid], uuid) }

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
	case g.Condition.FabricLimited != nil && *g.Condition.FabricLimited:
		return []string{g.UUID + ": the GPU's NVLink fabric has limited capacity: see nvidia-smi -q (Fabric)"}
	}
	return nil
}

// alike lists no devices, since there are several profiles: with the strategy single, all
// containers that request a GPU must get the same kind.
func alike(found *engine.Scan, profiles map[string]bool) {
	for i := range found.Units {
		found.Units[i].Devices = nil
	}
	found.Problems = append(found.Problems, engine.Problem{Err: fmt.Errorf(
		"the MIG strategy single needs MIG devices that are all alike, but there are %s: make them alike, or use the strategy mixed; nothing is listed meanwhile",
		strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))})
}

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

// groupsOf returns the reset groups by UUID of GPUs that are not reset alone; see resetTogether. The name of a group is its
// first UUID.
func groupsOf(snapshot driver.Snapshot) map[string]string {
	gpus, group := map[string]driver.GPU{}, map[string]string{}
	for _, g := range snapshot.GPUs {
		gpus[g.UUID] = g
	}
	find := func(uuid string) string {
		for group[uuid] != "" && group[uuid] != uuid {
			uuid = group[uuid]
		}
		return uuid
	}
	for _, l := range snapshot.Links {
		if !resetTogether(l.Kind, gpus[l.A]) && !resetTogether(l.Kind, gpus[l.B]) {
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

// resetTogether reports whether a GPU is reset only together with those that a link of this kind joins to it, in one
// command, as the manual of nvidia-smi has it for --gpu-reset (https://docs.nvidia.com/deploy/nvidia-smi/):
//
//	                               before Ampere   Ampere         Hopper and newer
//	NVSwitch, Fabric Manager runs  all peers       alone          alone
//	NVSwitch, it does not run      all peers       all peers      alone
//	direct NVLink                  all peers       alone          alone
//
// NVML reports what Fabric Manager has done only from Hopper on. So on Ampere it counts as one that does not run.
func resetTogether(kind backendv1.LinkKind, g driver.GPU) bool {
	switch g.Architecture {
	case "Kepler", "Maxwell", "Pascal", "Volta", "Turing":
		return kind == backendv1.LinkKind_LINK_KIND_NVLINK || kind == backendv1.LinkKind_LINK_KIND_NVSWITCH
	case "Ampere":
		return kind == backendv1.LinkKind_LINK_KIND_NVSWITCH && !g.Fabric.Joined()
	}
	return false
}
