package amd

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/amd/labels"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The classes of devices.
const (
	classGPU = "gpu"
	// classPartition is a partition of a GPU, unless the strategy is single.
	classPartition = "partition"
)

// List implements [engine.Vendor]: the device is a partition, or a whole GPU.
func (v vendor) List(d *engine.KnownDevice) (*sdk.Device, []string) {
	g, p := cardIn(d.Unit.Unit), partIn(d.Stable)
	if p.onDemand != nil {
		p = partIn(d.Read)
		g.Compute = p.mode.Name
	}
	device := &sdk.Device{Class: classGPU, Attributes: attributes(g, p.Partition), Capacities: map[string]int64{}, Links: p.links}
	if g.Partitioned() {
		device.ParentId = g.ID
		if v.cfg.strategy != single {
			device.Class = classPartition
		}
	}
	for name, amount := range map[string]uint64{
		"memory": cmp.Or(p.VRAM, whole(g.GPU)), "computeUnits": uint64(p.ComputeUnits), "simdUnits": uint64(p.SIMDs), "computeDies": uint64(p.XCCs),
	} {
		if amount > 0 {
			device.Capacities[name] = int64(min(amount, math.MaxInt64))
		}
	}
	if v.cfg.prepare.wanted() {
		device.Hooks = []backendv1.Hook{sdk.HookPrepare}
	}
	if p.onDemand != nil {
		v.describe(device, g, p)
	}
	return device, nil
}

// NodeLabels implements [engine.Labeler].
func (vendor) NodeLabels(units []*engine.KnownUnit) []*sdk.NodeLabel {
	var n labels.Node
	for _, u := range units {
		if len(u.Unit.Devices) == 0 {
			continue // left out
		}
		c := cardIn(u.Unit)
		n.DriverVersion, n.DriverSource = c.driverVersion, c.driverSource
		n.GPUs = append(n.GPUs, c.GPU)
	}
	return labels.Labels(n)
}

// whole returns the memory of a GPU that is one partition; 0 for others.
func whole(g gpu.GPU) uint64 {
	if g.Partitioned() {
		return 0
	}
	return g.VRAM
}

// attributes returns what selectors can ask for. What is not known is missing.
func attributes(g card, p gpu.Partition) map[string]*sdk.Attribute {
	of := map[string]*sdk.Attribute{
		"model": sdk.String(strings.TrimPrefix(g.Product, "AMD ")), "productName": sdk.String(labels.Product(g.Product)),
		"partitioned": sdk.Bool(g.Partitioned()), "partition": sdk.Int(int64(p.Index)),
		"deviceID": sdk.String(fmt.Sprintf("0x%04x", g.PCI.ID)), "integrated": sdk.Bool(g.Integrated), "compute": sdk.Bool(p.Computes()),
	}
	for name, value := range map[string]string{
		"family": g.Family, "gfxVersion": p.GFX, "driverVersionFull": g.driverVersion,
		"computePartition": strings.ToLower(g.Compute), "memoryPartition": strings.ToLower(g.Memory),
		"availableComputePartitions": strings.ToLower(strings.Join(g.ComputeModes, ",")),
		"availableMemoryPartitions":  strings.ToLower(strings.Join(g.MemoryModes, ",")),
		"hive":                       hexadecimal(g.Hive), "uniqueID": hexadecimal(g.UniqueID),
	} {
		if value != "" {
			of[name] = sdk.String(value)
		}
	}
	of["type"] = sdk.String("amdgpu")
	if g.Partitioned() {
		of["type"] = sdk.String("amdgpu-partition")
	}
	if g.Compute != "" && g.Memory != "" {
		of["partitionProfile"] = sdk.String(strings.ToLower(g.Compute + "_" + g.Memory))
	}
	if g.PCI.NUMANode >= 0 {
		of["numaNode"] = sdk.Int(int64(g.PCI.NUMANode))
	}
	if v := sdk.Semantic(g.driverVersion); v != "" {
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
