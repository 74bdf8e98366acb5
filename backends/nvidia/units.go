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
	gpu.Reading
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

// lister makes the units of a scan.
type lister struct {
	source
	read   snapshot
	groups map[string]string
	// known are the devices of earlier scans.
	known map[string]engine.Device
}

// list returns the GPUs as a scan, with the devices that the strategy makes of them, and problems.
func (s source) list(read snapshot, gpus []gpu.Reading, known []engine.Unit) (found engine.Scan) {
	l := lister{source: s, read: read, groups: groupsOf(read.Snapshot), known: map[string]engine.Device{}}
	for _, u := range known {
		for _, d := range u.Devices {
			l.known[d.ID] = d
		}
	}
	links, profiles := linksOf(read.Links), map[string]bool{}
	slices.SortFunc(gpus, func(a, b gpu.Reading) int { return strings.Compare(a.UUID, b.UUID) })
	for _, g := range gpus {
		g.Began, g.Number, g.Loads = read.began, read.number, read.loads
		r := reading{Reading: g, versions: versions{read.DriverVersion, read.CUDAVersion}, links: links[g.UUID], problems: append(fabric(g.GPU), pendingMode(g.GPU)...)}
		if err := read.unregistered[g.UUID]; err != nil && g.Err == nil {
			r.problems = append(r.problems, g.UUID+": the driver sends no events of the GPU, so its XIDs are missed, and faults are found by "+
				"reading it alone; this is tried again at each scan: "+err.Error())
		}
		found.Units = append(found.Units, l.unit(&r, profiles))
	}
	s.forgetPartitions(read.GPUs, found.Units)
	for _, text := range slices.Concat(read.set.Problems, s.cfg.sharing(s.b.mps).impossible(gpus)) {
		found.Problems = append(found.Problems, engine.Problem{Err: errors.New(text)})
	}
	if s.cfg.strategy == migSingle && len(profiles) > 1 {
		alike(&found, profiles)
	}
	return found
}

// unit returns the unit of a GPU. It adds what is listed to profiles.
func (l lister) unit(r *reading, profiles map[string]bool) engine.Unit {
	g := r.GPU
	unit := engine.Unit{ID: g.UUID, Board: l.group(g.UUID), Dir: "bus/pci/devices/" + cmp.Or(g.PCIBusID, g.UUID), Err: g.Err}
	if g.PCIBusID != "" {
		unit.PCI = &r.At
	}
	switch {
	case l.cfg.strategy == migNone || !g.MIGEnabled:
		unit.Devices = append(unit.Devices, l.device(g, g.UUID, nil))
		profiles["whole GPUs"] = true
	case l.cfg.strategy == migDynamic:
		unit.Devices = l.partitions(r)
	case len(g.Instances) == 0 && g.Err == nil:
		r.problems = append(r.problems, g.UUID+": the GPU is in MIG mode and has no MIG devices, so neither it nor a part of it is listed: "+
			"create them (nvidia-smi mig -cgi <profiles> -C), or switch MIG mode off (nvidia-smi -mig 0)")
	default:
		for n, i := range g.Instances {
			unit.Devices = append(unit.Devices, l.device(g, i.UUID, &i))
			unit.Devices[n].Number = n
			profiles[i.Profile] = true
		}
	}
	unit.Vendor = *r
	return unit
}

// device returns the device for the GPU or for one of its MIG devices.
func (l lister) device(g driver.GPU, id string, i *driver.Instance) engine.Device {
	own, err := l.edits(g, id, id)
	return engine.Device{ID: id, Name: id, ResetGroup: l.group(g.UUID), Edits: l.cfg.sharing(l.b.mps).edits(own, g), EditsErr: err, Vendor: i}
}

// edits returns the container edits of a device, which are those of the GPU or MIG device with a UUID, or why there are none. A
// GPU that could not be read keeps its earlier ones.
func (l lister) edits(g driver.GPU, id, uuid string) (*sdk.Edits, error) {
	if before, ok := l.known[id]; ok && g.Err != nil {
		return before.Edits, before.EditsErr
	}
	return l.read.set.Of(uuid)
}

// group returns the reset group of a GPU.
func (l lister) group(uuid string) string { return cmp.Or(l.groups[uuid], uuid) }

// fabric returns problems of a GPU's NVLink fabric that are not faults of the GPU, because it
// can still be used alone.
func fabric(g driver.GPU) []string {
	switch f := g.Fabric; {
	case g.Err != nil || f == nil:
	case f.Err != nil:
		return []string{g.UUID + ": the GPU did not join its NVLink fabric, so it has no NVLinks to other GPUs: " + f.Err.Error() +
			"; see the log of the fabric manager, then reset the GPU"}
	case f.Waits() && !g.MIGEnabled: // a fault of the GPU
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
//	                              | before Ampere | Ampere    | Hopper and newer
//	NVSwitch, Fabric Manager runs | all peers     | alone     | alone
//	NVSwitch, it does not run     | all peers     | all peers | alone
//	direct NVLink                 | all peers     | alone     | alone
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
