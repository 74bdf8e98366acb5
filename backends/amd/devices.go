package amd

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The classes of devices.
const (
	classGPU = "gpu"
	// classPartition is a partition of a GPU, unless the strategy is single.
	classPartition = "partition"
)

// listing makes devices of what is known.
type listing struct {
	cfg           *config
	driverVersion string
	problems      []string
	places        map[string]place // by the ID of the partition
}

func (l *loop) listing() *listing {
	return &listing{cfg: l.cfg, driverVersion: l.last.inventory.DriverVersion, places: l.roster.places()}
}

// devices are all devices in a stable order, and what is unclear about them.
func (l *listing) devices(r *roster) ([]*sdk.Device, []string) {
	var devices []*sdk.Device
	for _, known := range r.sorted() {
		health := known.said
		if known.unread() {
			continue // listed a moment later, when it is known how it is
		}
		if health.GetState() == backendv1.HealthState_HEALTH_STATE_UNKNOWN {
			l.problems = append(l.problems, known.gpu.ID+": how the GPU is cannot be told now, so it stays as it was: "+health.GetMessage())
		}
		for _, p := range known.gpu.Partitions {
			devices = append(devices, l.device(known, p))
		}
	}
	return devices, l.problems
}

// resetGroup are the GPUs and partitions that lose their state together: those of the
// hive, which the driver resets as a whole, else those of the GPU.
func resetGroup(g gpu.GPU) string {
	if g.Hive != 0 {
		return fmt.Sprintf("hive-%016x", g.Hive)
	}
	return g.ID
}

// device is a partition, or a whole GPU.
func (l *listing) device(known *record, p gpu.Partition) *sdk.Device {
	g := known.gpu
	d := &sdk.Device{
		Id: p.ID, Class: classGPU, PciBusId: g.PCI.Address.String(), ResetGroup: resetGroup(g),
		Health: known.said, Attributes: l.attributes(g, p), Capacities: map[string]int64{}, Links: l.links(p),
	}
	if g.Partitioned() {
		d.ParentId = g.ID
		if l.cfg.strategy == mixed {
			d.Class = classPartition
		}
	}
	for name, amount := range map[string]uint64{
		"memory": cmp.Or(p.VRAM, whole(g)), "computeUnits": uint64(p.ComputeUnits), "simds": uint64(p.SIMDs), "computeDies": uint64(p.XCCs),
	} {
		if amount > 0 {
			d.Capacities[name] = int64(min(amount, math.MaxInt64))
		}
	}
	if g.PCI.NUMANode >= 0 {
		d.NumaNodes = []uint32{uint32(g.PCI.NUMANode)}
	}
	if l.cfg.prepare.wanted() {
		d.Hooks = []backendv1.Hook{sdk.HookPrepare}
	}
	given := known.given[p.ID]
	// A card that is away has no nodes either: that is not what is wrong.
	if d.Edits = given.edits; given.fault != nil && known.absent == nil {
		d.Health = sdk.Graver(given.fault, known.said)
	}
	return d
}

// whole is the memory of a GPU that is no more than one partition; else 0.
func whole(g gpu.GPU) uint64 {
	if g.Partitioned() {
		return 0
	}
	return g.VRAM
}

// attributes are what selectors can ask for. What is not known is missing.
func (l *listing) attributes(g gpu.GPU, p gpu.Partition) map[string]*sdk.Attribute {
	of := map[string]*sdk.Attribute{
		"model": sdk.String(strings.TrimPrefix(g.Product, "AMD ")), "productName": sdk.String(g.Product),
		"partitioned": sdk.Bool(g.Partitioned()), "partition": sdk.Int(int64(p.Index)),
		"deviceID": sdk.String(fmt.Sprintf("%04x", g.PCI.ID)),
	}
	for name, value := range map[string]string{
		"family": g.Family, "gfxVersion": p.GFX, "driverVersionText": l.driverVersion,
		"computePartition": strings.ToLower(g.Compute), "memoryPartition": strings.ToLower(g.Memory),
		"availableComputePartitions": strings.ToLower(strings.Join(g.ComputeModes, ",")),
		"availableMemoryPartitions":  strings.ToLower(strings.Join(g.MemoryModes, ",")),
		"hive":                       hexadecimal(g.Hive), "uniqueID": hexadecimal(g.UniqueID),
	} {
		if value != "" {
			of[name] = sdk.String(value)
		}
	}
	if v := sdk.Semantic(l.driverVersion); v != "" {
		of["driverVersion"] = sdk.Version(v)
	}
	return of
}

func hexadecimal(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", n)
}
