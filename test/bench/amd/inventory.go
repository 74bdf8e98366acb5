package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// read are the files that the backend reads for an inventory, below sysfs.
var read = []string{
	"class/kfd/kfd/topology/generation_id", "class/kfd/kfd/topology/nodes/*/properties", "class/kfd/kfd/topology/nodes/*/gpu_id",
	"class/kfd/kfd/topology/nodes/*/mem_banks/*/properties", "class/kfd/kfd/topology/nodes/*/*_links/*/properties",
	"class/drm/card*[0-9]/dev", "class/drm/renderD*/dev", "module/amdgpu/version", "bus/pci/drivers/amdgpu/*/vendor",
	"bus/pci/drivers/amdgpu/*/device", "bus/pci/drivers/amdgpu/*/class", "bus/pci/drivers/amdgpu/*/numa_node",
	"bus/pci/drivers/amdgpu/*/revision", "bus/pci/drivers/amdgpu/*/unique_id", "bus/pci/drivers/amdgpu/*/product_name",
	"bus/pci/drivers/amdgpu/*/mem_info_vram_total", "bus/pci/drivers/amdgpu/*/*_partition",
}

// firstInventory is how long it takes from the start of a backend's process to its
// devices. The mock backend, which reads nothing, and cat of the files that the AMD
// backend reads are the floor, taken in turn.
func firstInventory(bin string, starts int) (_ []rig.Figure, err error) {
	tree, remove, err := newMachine()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var files []string
	for _, pattern := range read {
		matches, err := filepath.Glob(filepath.Join(tree.Sysfs(), pattern))
		if err != nil || len(matches) == 0 {
			return nil, fmt.Errorf("no file is %s: %w", pattern, err)
		}
		files = append(files, matches...)
	}
	mock := supervisor.Spec{Name: "mock", Command: "accelmux-backend-mock", Settings: fmt.Appendf(nil, `{"count": %d}`, partitions)}
	amd := supervisor.Spec{Name: "amd", Command: "accelmux-backend-amd", Settings: []byte(`{"partitions": {"strategy": "mixed"}}`)}
	var floors, all, cats, beyond []time.Duration
	for range starts {
		floor, err := rig.First(bin, tree.Root, mock, partitions)
		if err != nil {
			return nil, err
		}
		took, err := rig.First(bin, tree.Root, amd, partitions)
		if err != nil {
			return nil, err
		}
		reading, err := rig.Cat(files)
		if err != nil {
			return nil, err
		}
		floors, all, cats = append(floors, floor), append(all, took), append(cats, reading)
		beyond = append(beyond, took-floor-reading)
	}
	return []rig.Figure{{
		What: "first inventory, beyond cat and the floor", Value: rig.Milliseconds(rig.Median(beyond)), Limit: 20, Unit: "ms",
		Floor: rig.Milliseconds(rig.Median(floors)), FloorIs: "all of the mock backend's", Beyond: true,
		Note: fmt.Sprintf("%d starts, %.1f ms in all, cat of %d files %.1f ms", starts,
			rig.Milliseconds(rig.Median(slices.Clone(all))), len(files), rig.Milliseconds(rig.Median(cats))),
	}}, nil
}
