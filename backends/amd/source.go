package amd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/amd/reset"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// vendorAMD, and the classes that GPUs have on the PCI bus: VGA, 3D, display and
// processing accelerators.
const vendorAMD = 0x1002

var classes = []uint16{0x0300, 0x0302, 0x0380, 0x1200}

// source is amdgpu as the engine uses it, by one configuration. It is safe for concurrent use.
type source struct {
	backend *Backend
	cfg     *config
	// generation is KFD's at the last scan; nil before the first.
	generation atomic.Pointer[uint64]
	// found has the KFD IDs of the cards of the last scan, for the monitor.
	found chan map[uint32]string
}

func newSource(b *Backend, cfg *config) *source {
	return &source{backend: b, cfg: cfg, found: make(chan map[uint32]string, 1)}
}

// card is what a source puts into a unit, part into a device.
type (
	card struct {
		gpu.GPU
		// index is the card's place among those of the node, by PCI address.
		index                       int
		driverVersion, driverSource string
	}
	part struct {
		gpu.Partition
		links []*sdk.Link
		// onDemand is nil unless the partition is made for claims.
		*onDemand
		// missing is why the scan did not find the partition; empty if it did.
		missing string
	}
)

func cardIn(u engine.Unit) card {
	c, _ := u.Vendor.(card)
	return c
}

func partIn(d engine.Device) part {
	p, _ := d.Vendor.(part)
	return p
}

// Name implements [engine.Driver].
func (*source) Name() string { return "amdgpu" }

// Scan implements [engine.Driver].
func (s *source) Scan(known []engine.Unit) engine.Scan {
	root := s.cfg.host.Sysfs
	inventory, err := s.backend.seams.read(root, s.backend.seams.names())
	s.generation.Store(&inventory.Generation)
	unloaded := errors.Is(err, fs.ErrNotExist)
	if err != nil && !unloaded {
		return engine.Scan{Err: err}
	}
	found := engine.Scan{Unstable: inventory.Unstable, Unloaded: unloaded}
	for _, p := range append(inventory.Problems, reconcile(&inventory, known)...) {
		found.Problems = append(found.Problems, engine.Problem(p))
	}
	var idle error
	if found.Away, idle = away(root, unloaded); idle != nil {
		found.Problems = append(found.Problems, engine.Problem{Lost: found.Away == nil, Err: idle})
	}
	places := placesOf(inventory)
	for i, g := range inventory.GPUs {
		u := engine.Unit{
			ID: g.ID, Board: resetGroup(g), PCI: &g.PCI, Dir: filepath.Join("bus", "pci", "devices", g.PCI.Address.String()),
			Vendor: card{GPU: g, index: i, driverVersion: inventory.DriverVersion, driverSource: inventory.DriverSource},
		}
		if lostKFD(g, known) {
			found.Problems = append(found.Problems, engine.Problem{Device: g.PCI.Address.String(), Lost: true, Err: errors.New("KFD has no node of it any more")})
			continue
		}
		if omitted, err := g.Omitted(s.cfg.integrated); omitted {
			if err != nil {
				found.Problems = append(found.Problems, engine.Problem{Device: g.PCI.Address.String(), Err: err})
			}
			found.Units = append(found.Units, u) // without devices
			continue
		}
		if s.demandable(g) {
			if err := s.forget(g, known); err != nil {
				found.Problems = append(found.Problems, engine.Problem{Device: g.PCI.Address.String(), Err: err})
			}
			u.Devices = s.partitions(g, places, inventory.Problems)
			found.Units = append(found.Units, u)
			continue
		}
		for _, p := range g.Partitions {
			u.Devices = append(u.Devices, s.device(g, part{Partition: p, links: linksOf(p, places)}))
		}
		for _, p := range missing(g, known) {
			p.missing = reasonOf(inventory.Problems)
			u.Devices = append(u.Devices, s.device(g, p))
		}
		found.Units = append(found.Units, u)
	}
	s.setCards(inventory)
	return found
}

// setCards gives the monitor the cards that a scan found.
func (s *source) setCards(inventory gpu.Inventory) {
	found := map[uint32]string{}
	for _, g := range inventory.GPUs {
		if id := g.Partitions[0].KFDID; id != 0 {
			found[id] = g.ID
		}
	}
	select {
	case <-s.found: // of an earlier scan
	default:
	}
	s.found <- found
}

// lostKFD reports whether the GPU could compute at the last scan, and cannot now.
func lostKFD(g gpu.GPU, known []engine.Unit) bool {
	return !g.Computes() && slices.ContainsFunc(known, func(u engine.Unit) bool { return u.ID == g.ID && cardIn(u).Computes() })
}

func (s *source) device(g gpu.GPU, p part) engine.Device {
	d := engine.Device{ID: p.ID, Number: p.Index, Name: p.ID, ResetGroup: resetGroup(g), Vendor: p}
	if p.missing != "" {
		d.EditsErr = errors.New(p.missing)
		return d
	}
	if p.onDemand != nil && !p.current {
		return d
	}
	// A known partition that is missing is confirmed by another scan, as its content is gone.
	d.Content = fmt.Sprintf("%s renderD%d", g.Memory, p.Render)
	d.Edits, d.EditsErr = editsOf(s.cfg.edits, s.cfg.host.Devfs, p.Partition)
	return d
}

// resetGroup returns the GPUs and partitions that lose their state together: those of the hive,
// which the driver resets as a whole, or those of the GPU.
func resetGroup(g gpu.GPU) string {
	if g.Hive != 0 {
		return fmt.Sprintf("hive-%016x", g.Hive)
	}
	return g.ID
}

// missing returns the partitions that the GPU had before in the same mode and has not now. In
// a mode a GPU has all its partitions, so a missing one is broken, not gone.
func missing(g gpu.GPU, known []engine.Unit) []part {
	i := slices.IndexFunc(known, func(u engine.Unit) bool { return u.ID == g.ID })
	if i < 0 || cardIn(known[i]).Compute != g.Compute {
		return nil
	}
	var all []part
	for _, d := range known[i].Devices {
		if !slices.ContainsFunc(g.Partitions, func(p gpu.Partition) bool { return p.ID == d.ID }) {
			all = append(all, part{Partition: partIn(d).Partition})
		}
	}
	return all
}

// reasonOf returns why a partition of a present GPU is missing: what cannot be read in KFD and
// DRM, which do not report the partition that it belongs to.
func reasonOf(problems []gpu.Problem) string {
	const noNode = "the kernel reports only a part of the partition: "
	var all []gpu.Problem
	for _, p := range problems {
		if _, err := pci.ParseAddress(p.Device); p.Lost && err != nil {
			all = append(all, p)
		}
	}
	switch len(all) {
	case 0:
		return noNode + "it has no KFD node"
	case 1:
		return fmt.Sprintf("%s%s: %v", noNode, all[0].Device, all[0].Err)
	}
	return fmt.Sprintf("%s%s: %v (and %d more, see the problems)", noNode, all[0].Device, all[0].Err, len(all)-1)
}

// reconcile leaves out a GPU whose ID differs from that of the known GPU at its address
// although KFD has the same unique IDs for both. The card's unique_id in sysfs is wrong
// then, and the GPU is the known one.
func reconcile(inventory *gpu.Inventory, known []engine.Unit) (problems []gpu.Problem) {
	inventory.GPUs = slices.DeleteFunc(inventory.GPUs, func(g gpu.GPU) bool {
		at := g.PCI.Address
		i := slices.IndexFunc(known, func(u engine.Unit) bool { return u.PCI != nil && u.PCI.Address == at })
		if i < 0 || known[i].ID == g.ID || !sameSilicon(cardIn(known[i]).GPU, g) {
			return false
		}
		problems = append(problems, gpu.Problem{Device: at.String(), Lost: true, Err: fmt.Errorf(
			"by its unique_id it is %s, but KFD has the same IDs for it as for %s, so one of the two is wrong: see the kernel log", g.ID, known[i].ID)})
		return true
	})
	return problems
}

// sameSilicon reports whether the two GPUs have a unique ID of KFD in common.
func sameSilicon(a, b gpu.GPU) bool {
	return slices.ContainsFunc(a.Partitions, func(p gpu.Partition) bool {
		return p.UniqueID != 0 && slices.ContainsFunc(b.Partitions, func(q gpu.Partition) bool { return q.UniqueID == p.UniqueID })
	})
}

// away returns which AMD GPUs are on the PCI bus without a driver, and that as a problem; unloaded: amdgpu is not loaded.
func away(root string, unloaded bool) (map[pci.Address]string, error) {
	present, err := pci.List(root, vendorAMD, classes...)
	if err := pci.Unlisted(present, err); err != nil {
		return nil, err
	}
	present = slices.DeleteFunc(present, func(d pci.Device) bool { return d.Driver != "" })
	if len(present) == 0 {
		return nil, nil
	}
	var at []string
	all := map[pci.Address]string{}
	for _, d := range present {
		at = append(at, d.Address.String())
		all[d.Address] = "it is on the PCI bus without the driver amdgpu"
	}
	addresses := strings.Join(at, ", ")
	if unloaded {
		return all, fmt.Errorf("%d AMD GPUs are on the PCI bus (%s), but the driver amdgpu is not loaded: modprobe amdgpu, or wait until the driver's container has done so", len(at), addresses)
	}
	return all, fmt.Errorf("%d AMD GPUs are on the PCI bus without a driver (%s): see the kernel log for why amdgpu does not have them", len(at), addresses)
}

// Reset implements [engine.Driver].
func (s *source) Reset(ctx context.Context, targets []engine.Target) (string, error) {
	var gpus []reset.GPU
	for _, t := range targets {
		g := cardIn(t.Unit)
		i := slices.IndexFunc(gpus, func(other reset.GPU) bool { return other.ID == g.ID })
		if i < 0 {
			i = len(gpus)
			gpus = append(gpus, reset.GPU{ID: g.ID, PCIBusID: g.PCI.Address.String(), Card: drm.None})
		}
		p := partIn(t.Device)
		if p.Index == 0 {
			gpus[i].Card = p.Card
		}
		if p.Computes() {
			gpus[i].KFDIDs = append(gpus[i].KFDIDs, p.KFDID)
		}
	}
	return s.cfg.reset.Reset(ctx, s.cfg.host, gpus)
}

// Sense implements [engine.Senser] with the error counters of the card.
func (s *source) Sense(u engine.Unit, _ string) engine.Senses {
	counters, err := s.backend.seams.counters(filepath.Join(s.cfg.host.Sysfs, u.Dir), s.cfg.health.XGMI != ignore)
	unplugged := errors.Is(err, fs.ErrNotExist) && len(counters.Blocks) == 0 // as the next scan will find
	return engine.Senses{Vendor: reading{counters, err, unplugged}, Unavailable: counters.Busy || unplugged}
}

// reading is one of the error counters of a card.
type reading struct {
	ras.Counters
	err       error // what could not be read
	unplugged bool
}
